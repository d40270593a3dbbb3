//! The same model as a GGUF file and as a folder of safetensors.

use half::f16;
use model::chat::{ChatInput, ChatTemplate, Clock, Message, Role};
use model::{Model, Specials};
use program::reference::Reference;
use program::{CacheSize, Device, Options, Output, PageId, Sequence, Size, Step, Token, Want};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;
use tempfile::TempDir;

use crate::writer::{self, DIMS, Gguf, HEADS, HIDDEN, KV_HEADS, LAYERS, OPTIONS, VOCAB, WIDTH};

/// The small llama in safetensors.
fn folder(tied: bool) -> TempDir {
    let folder = TempDir::new().unwrap();
    let config = json!({
        "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": WIDTH, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIMS, "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "max_position_embeddings": 256, "hidden_act": "silu",
        "tie_word_embeddings": tied,
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let weights = writer::weights().into_iter().filter(|(name, ..)| !tied || name != "lm_head.weight");
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = weights
        .map(|(name, shape, numbers)| (name, shape, numbers.iter().flat_map(|x| x.to_le_bytes()).collect()))
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, data)| (name, TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
    safetensors::serialize_to_file(views, None, &folder.path().join("model.safetensors")).unwrap();
    folder
}

/// The logits after some ids.
fn logits(model: &Model) -> Vec<f32> {
    let ids = [258_u32, 0, 17, 255, 257, 64, 3, 200, 9];
    let rows = ids.len() as u32;
    let mut device = Reference::new();
    model.load(&mut device, &mut |_| {}).unwrap();
    device.reserve(&model.spec.caches, CacheSize { pages: 2, slots: 1 }).unwrap();
    let size = Size { tokens: rows, outputs: rows, sequences: 1 };
    let program = device.prepare(&model.spec.programs[0], &Options::new(size)).unwrap();
    let step = Step {
        tokens: &ids.map(Token::Id),
        positions: &Vec::from_iter(0..rows),
        sequences: &[Sequence { rows: 0..rows, cached: 0, pages: 0..1, slot: 0 }],
        pages: &[PageId(1)],
        outputs: &Vec::from_iter((0..rows).map(|row| Output { row, want: Want::Logits })),
    };
    let ticket = device.submit(program, &step).unwrap();
    device.wait(ticket).unwrap().logits.to_vec()
}

#[test]
fn a_gguf_file_gives_the_logits_of_the_same_weights_in_safetensors() {
    let want = logits(&Model::open(folder(false).path(), &OPTIONS).unwrap());
    let gguf = Gguf::llama();
    let file = gguf.file();
    assert_eq!(logits(&file.open().unwrap()), want);
    // A folder that holds nothing else may be named too.
    assert_eq!(logits(&Model::open(&file.folder(), &OPTIONS).unwrap()), want);

    let mut unlike = gguf.clone();
    let keys = unlike.tensor("blk.0.attn_k.weight");
    keys.data.rotate_left(HIDDEN * 4);
    assert_ne!(logits(&unlike.file().open().unwrap()), want);
}

#[test]
fn without_an_output_tensor_the_embedding_table_is_the_head() {
    let want = logits(&Model::open(folder(true).path(), &OPTIONS).unwrap());
    let mut gguf = Gguf::llama();
    gguf.tensors.retain(|tensor| tensor.name != "output.weight");
    assert_eq!(logits(&gguf.file().open().unwrap()), want);
}

#[test]
fn blocks_are_decoded_in_the_order_of_the_models_rows() {
    let mut gguf = Gguf::llama();
    let mut plain = gguf.clone();
    for name in ["blk.0.attn_q.weight", "blk.1.attn_k.weight", "blk.0.ffn_down.weight", "token_embd.weight"] {
        // Blocks of 32 bytes with the scale 2^-8, whose products f16 holds exactly.
        let scale = f16::from_f32(2_f32.powi(-8));
        let numbers = plain.tensor(name);
        let bytes: Vec<i8> = numbers.data.chunks_exact(4).map(|number| number[1] as i8).collect();
        numbers.data = bytes.iter().flat_map(|&q| (f32::from(q) * scale.to_f32()).to_le_bytes()).collect();
        let packed = gguf.tensor(name);
        packed.format = 8;
        packed.data = bytes
            .chunks_exact(32)
            .flat_map(|block| scale.to_le_bytes().into_iter().chain(block.iter().map(|q| *q as u8)))
            .collect();
    }
    assert_eq!(logits(&gguf.file().open().unwrap()), logits(&plain.file().open().unwrap()));
}

#[test]
fn facts_tokens_and_chat_template_come_from_the_metadata() {
    let file = Gguf::llama().file();
    let model = file.open().unwrap();
    assert_eq!((model.facts.bos, &*model.facts.eos, model.facts.context), (Some(258), &[259][..], 256));
    let tokenizer = model.tokenizer.as_ref().unwrap();
    assert_eq!(tokenizer.encode("the 10", Specials::Parse).unwrap(), [257, 32, 49, 48]);
    assert_eq!(tokenizer.encode("<|im_end|>", Specials::Parse).unwrap(), [259]);
    assert!(tokenizer.encode("<|im_end|>", Specials::Plain).unwrap().len() > 2);
    assert!(tokenizer.is_special(258) && !tokenizer.is_special(257) && tokenizer.prefix().is_empty());
    assert_eq!(tokenizer.decode(&[257, 233]), "the\u{fffd}");

    for path in [file.path(), file.folder()] {
        let template = ChatTemplate::find(&path, tokenizer).unwrap().unwrap();
        let messages = vec![Message::new(Role::User, "the")];
        let input = ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() };
        let prompt = template.render(&input, Clock::local()).unwrap();
        assert_eq!(prompt.to_string(), "<|im_start|>user\nthe<|im_end|><|im_start|>");
    }

    let mut with_bos = Gguf::llama();
    with_bos.set("tokenizer.ggml.add_bos_token", writer::flag(true));
    assert_eq!(with_bos.file().open().unwrap().tokenizer.unwrap().prefix(), [258]);
}
