//! Writes a small llama as a GGUF file, piece by piece, so that each piece can be made wrong.

use std::path::PathBuf;

use model::{BuildOptions, Error, Model};
use program::Format;
use program::random::SplitMix64;
use tempfile::TempDir;

pub(crate) const HIDDEN: usize = 64;
pub(crate) const WIDTH: usize = 96;
pub(crate) const LAYERS: usize = 2;
pub(crate) const HEADS: usize = 4;
pub(crate) const KV_HEADS: usize = 2;
pub(crate) const DIMS: usize = 16;
/// One token a byte, two pairs, and two control tokens.
pub(crate) const VOCAB: usize = 260;

/// A value of the metadata as it is written: its kind and its bytes.
#[derive(Clone)]
pub(crate) struct Value(pub(crate) u32, pub(crate) Vec<u8>);

/// A tensor: its sides with the innermost first, its format's number and its bytes.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) sides: Vec<u64>,
    pub(crate) format: u32,
    pub(crate) data: Vec<u8>,
}

/// A file to be.
#[derive(Clone)]
pub(crate) struct Gguf {
    pub(crate) metadata: Vec<(String, Value)>,
    pub(crate) tensors: Vec<Tensor>,
}

pub(crate) fn u32_value(number: u32) -> Value {
    Value(4, number.to_le_bytes().to_vec())
}

pub(crate) fn f32_value(number: f32) -> Value {
    Value(6, number.to_le_bytes().to_vec())
}

pub(crate) fn flag(flag: bool) -> Value {
    Value(7, vec![flag.into()])
}

pub(crate) fn text(text: &str) -> Value {
    Value(8, text_bytes(text))
}

pub(crate) fn list(values: &[Value]) -> Value {
    let kind = values.first().map_or(4, |value| value.0);
    let head = [&kind.to_le_bytes()[..], &(values.len() as u64).to_le_bytes()].concat();
    Value(9, values.iter().fold(head, |bytes, value| [&bytes[..], &value.1].concat()))
}

fn text_bytes(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The tokens: bytes as GPT-2 spells them, "th", "the", and two that structure a text.
pub(crate) fn tokens() -> Vec<String> {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut others = 0x100..;
    let spell = |byte: u8| match printable(&byte) {
        true => char::from(byte).to_string(),
        false => char::from_u32(others.next().unwrap()).unwrap().to_string(),
    };
    let bytes: Vec<String> = (0..=u8::MAX).map(spell).collect();
    [bytes, ["th", "the", "<|im_start|>", "<|im_end|>"].map(String::from).to_vec()].concat()
}

/// What the model begins with, with f32 numbers in the model's own order: its name there, rows and columns.
pub(crate) fn weights() -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let mut shapes = vec![("model.embed_tokens.weight".to_owned(), vec![VOCAB, HIDDEN])];
    for layer in 0..LAYERS {
        let mut add = |part: &str, shape: &[usize]| {
            shapes.push((format!("model.layers.{layer}.{part}.weight"), shape.to_vec()));
        };
        add("input_layernorm", &[HIDDEN]);
        add("self_attn.q_proj", &[HEADS * DIMS, HIDDEN]);
        add("self_attn.k_proj", &[KV_HEADS * DIMS, HIDDEN]);
        add("self_attn.v_proj", &[KV_HEADS * DIMS, HIDDEN]);
        add("self_attn.o_proj", &[HIDDEN, HEADS * DIMS]);
        add("post_attention_layernorm", &[HIDDEN]);
        add("mlp.gate_proj", &[WIDTH, HIDDEN]);
        add("mlp.up_proj", &[WIDTH, HIDDEN]);
        add("mlp.down_proj", &[HIDDEN, WIDTH]);
    }
    shapes.push(("model.norm.weight".into(), vec![HIDDEN]));
    shapes.push(("lm_head.weight".into(), vec![VOCAB, HIDDEN]));
    let mut random = SplitMix64::new(7);
    let filled = |(name, shape): (String, Vec<usize>)| {
        let count = shape.iter().product();
        let numbers = (0..count).map(|_| random.uniform() - 0.4).collect();
        (name, shape, numbers)
    };
    shapes.into_iter().map(filled).collect()
}

/// What llama.cpp's converter calls a tensor.
fn gguf_name(name: &str) -> String {
    let pairs = [
        ("model.layers.", "blk."),
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    pairs.iter().fold(name.to_owned(), |name, (theirs, gguf)| name.replace(theirs, gguf))
}

/// As that converter permutes queries and keys: `reshape(heads, 2, dims / 2, columns).swapaxes(1, 2)`.
fn permuted(numbers: &[f32], heads: usize, columns: usize) -> Vec<f32> {
    let half = numbers.len() / heads / columns / 2;
    let mut out = Vec::with_capacity(numbers.len());
    for head in 0..heads {
        for i in 0..half {
            for part in 0..2 {
                let row = (head * 2 + part) * half + i;
                out.extend_from_slice(&numbers[row * columns..][..columns]);
            }
        }
    }
    out
}

impl Gguf {
    /// The small llama, all numbers in f32.
    pub(crate) fn llama() -> Gguf {
        let tokens = tokens();
        let kinds: Vec<Value> = (0..tokens.len()).map(|id| u32_value(if id < 258 { 1 } else { 3 })).collect();
        let texts: Vec<Value> = tokens.iter().map(|token| text(token)).collect();
        let template = "{% for message in messages %}{{ bos_token + message['role'] + '\\n' + message['content'] \
                        + eos_token }}{% endfor %}{% if add_generation_prompt %}{{ bos_token }}{% endif %}";
        let number = |key: &str, number: usize| (format!("llama.{key}"), u32_value(number as u32));
        let other = |key: &str, value: Value| (key.to_owned(), value);
        let metadata = vec![
            other("general.architecture", text("llama")),
            number("block_count", LAYERS),
            number("context_length", 256),
            number("embedding_length", HIDDEN),
            number("feed_forward_length", WIDTH),
            number("attention.head_count", HEADS),
            number("attention.head_count_kv", KV_HEADS),
            number("rope.dimension_count", DIMS),
            other("llama.attention.layer_norm_rms_epsilon", f32_value(1e-5)),
            other("llama.rope.freq_base", f32_value(5000.0)),
            other("tokenizer.ggml.model", text("gpt2")),
            other("tokenizer.ggml.pre", text("smollm")),
            other("tokenizer.ggml.tokens", list(&texts)),
            other("tokenizer.ggml.token_type", list(&kinds)),
            other("tokenizer.ggml.merges", list(&[text("t h"), text("th e")])),
            other("tokenizer.ggml.bos_token_id", u32_value(258)),
            other("tokenizer.ggml.eos_token_id", u32_value(259)),
            other("tokenizer.ggml.add_bos_token", flag(false)),
            other("tokenizer.chat_template", text(template)),
        ];
        let tensor = |(name, shape, numbers): (String, Vec<usize>, Vec<f32>)| {
            let numbers = match &*name {
                name if name.contains("q_proj") => permuted(&numbers, HEADS, HIDDEN),
                name if name.contains("k_proj") => permuted(&numbers, KV_HEADS, HIDDEN),
                _ => numbers,
            };
            let data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let sides = shape.iter().rev().map(|&side| side as u64).collect();
            Tensor { name: gguf_name(&name), sides, format: 0, data }
        };
        Gguf { metadata, tensors: weights().into_iter().map(tensor).collect() }
    }

    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.metadata.retain(|(known, _)| known != key);
        self.metadata.push((key.into(), value));
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    /// The bytes of the header, and of the whole file.
    pub(crate) fn bytes(&self) -> (usize, Vec<u8>) {
        let mut file = b"GGUF".to_vec();
        file.extend(3_u32.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, Value(kind, bytes)) in &self.metadata {
            file.extend(text_bytes(key));
            file.extend(kind.to_le_bytes());
            file.extend(bytes);
        }
        let mut offset = 0_u64;
        for Tensor { name, sides, format, data } in &self.tensors {
            file.extend(text_bytes(name));
            file.extend((sides.len() as u32).to_le_bytes());
            file.extend(sides.iter().flat_map(|side| side.to_le_bytes()));
            file.extend(format.to_le_bytes());
            file.extend(offset.to_le_bytes());
            offset += (data.len() as u64).next_multiple_of(32);
        }
        let header = file.len();
        for Tensor { data, .. } in &self.tensors {
            file.resize(file.len().next_multiple_of(32), 0);
            file.extend(data);
        }
        (header, file)
    }

    pub(crate) fn file(&self) -> File {
        File::new(&self.bytes().1)
    }
}

/// A file in a folder of its own.
pub(crate) struct File(TempDir);

impl File {
    pub(crate) fn new(bytes: &[u8]) -> File {
        let file = File(TempDir::new().unwrap());
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("small.gguf")
    }

    pub(crate) fn open(&self) -> Result<Model, Error> {
        Model::open(&self.path(), &OPTIONS)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.0.path().into()
    }
}

pub(crate) const OPTIONS: BuildOptions = BuildOptions { cache: Format::F16 };
