//! Rotary embeddings of whole configurations at the first and the last position, against a forward
//! pass in numpy, which gives the logits of transformers on every golden model.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use std::path::Path;

use model::Model;
use program::reference::Reference;
use program::{
    CacheSize, Device, Heads, Op, Options, PageId, Pairing, Program, Role, Rope, Rows, Sequence, Size, Step,
    Token, Val,
};

/// What attention does with positions.
struct Rotation {
    heads: Heads,
    rope: Rope,
    /// What the scores are multiplied by.
    scale: f32,
}

impl Rotation {
    /// The key's rotation in the first layer.
    fn of(config: &str) -> Rotation {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(config);
        let spec = Model::published(&path).unwrap();
        let ops = &spec.programs[0].ops;
        let ropes = ops.iter().filter_map(|op| match op {
            Op::Rope { heads, rope, .. } => Some((*heads, rope.clone())),
            _ => None,
        });
        let scales = ops.iter().filter_map(|op| match op {
            Op::Attend { shape, .. } => Some(shape.scale),
            Op::AttendMla { shape, .. } => Some(shape.scale),
            _ => None,
        });
        let (heads, rope) = ropes.take(2).last().unwrap();
        Rotation { heads: Heads { count: 1, ..heads }, rope, scale: scales.take(1).last().unwrap() }
    }

    /// A head of -5/4, 2/4, -2/4, 5/4, 1/4, -3/4 and so on, turned by the reference device.
    fn turned(&self, position: u32) -> Vec<f32> {
        let cols = self.heads.dims;
        let [x, out] = [0, 1].map(|id| Val { id, rows: Rows::Tokens, cols, role: Role::Activation });
        let op = Op::Rope { x: x.into(), heads: self.heads, rope: self.rope.clone(), out };
        let mut device = Reference::new();
        device.reserve(&[], CacheSize { pages: 2, slots: 1 }).unwrap();
        let size = Size { tokens: 1, outputs: 0, sequences: 1 };
        let program = device.prepare(&Program::of(&[op]), &Options::new(size)).unwrap();
        let head: Vec<f32> = (0..cols).map(|dim| ((7 * dim % 11) as f32 - 5.0) / 4.0).collect();
        device.write(program, x, &head).unwrap();
        let step = Step {
            tokens: &[Token::Id(0)],
            positions: &[position],
            sequences: &[Sequence { rows: 0..1, cached: 0, pages: 0..1, slot: 0 }],
            pages: &[PageId(1)],
            outputs: &[],
        };
        let ticket = device.submit(program, &step).unwrap();
        device.wait(ticket).unwrap();
        let mut turned = vec![0.0; cols as usize];
        device.read(program, out, &mut turned).unwrap();
        turned
    }

    /// Compares some dims of the turned head.
    fn check(&self, position: u32, dims: &[usize], want: &[f32]) {
        let turned = self.turned(position);
        let frequencies = &self.rope.inverse_frequencies;
        for (&dim, want) in dims.iter().zip(want) {
            let pair = match self.rope.pairing {
                Pairing::Interleaved => dim / 2,
                Pairing::HalfSplit => dim % frequencies.len(),
            };
            // A frequency may differ in its last bit with the order of operations, and its angle with it.
            let tolerance = 2e-6 + 2.0 * f32::EPSILON * position as f32 * frequencies[pair];
            assert!((turned[dim] - want).abs() <= tolerance, "{position}, {dim}: {}, {want}", turned[dim]);
        }
    }
}

#[test]
fn deepseek_v3_scales_its_scores_and_its_angles_and_keeps_the_size_of_keys() {
    let rotation = Rotation::of("shapes/deepseek-v3.json");
    let dims = [0, 1, 31, 32, 62, 63];
    rotation.check(0, &dims, &[-1.25, 0.5, 0.75, -0.25, 0.0, -1.0]);
    let want = [-1.096_113_3, -0.781_687_6, 0.741_639_55, -0.243_121_25, 3.333_803_5e-6, -1.0];
    rotation.check(1, &dims, &want);
    let want = [0.200_894_47, 1.331_218, -1.236_347_7, 0.840_539_63, 0.519_449_83, -0.854_500_95];
    rotation.check(163_839, &dims, &want);
    // 192^-0.5 (0.1 ln 40 + 1)^2.
    assert_eq!(rotation.scale, 0.135_233_77);
}

#[test]
fn unlike_mscales_leave_their_ratio_on_the_keys() {
    let rotation = Rotation::of("tests/programs/deepseek_v3.json");
    let dims = [0, 1, 2, 3, 4, 5, 6, 7];
    let want =
        [-1.357_158, 0.542_863_2, -0.542_863_2, 1.357_158, 0.271_431_6, -0.814_294_8, 1.085_726_4, 0.0];
    rotation.check(0, &dims, &want);
    let want = [
        -1.190_079_2,
        -0.848_698_9,
        -0.675_640_8,
        1.296_181_9,
        0.275_601_3,
        -0.812_893_1,
        1.085_726_4,
        2.714_315_8e-5,
    ];
    rotation.check(1, &dims, &want);
    let want = [
        0.218_116_4,
        1.445_338_5,
        1.122_116_6,
        -0.936_713_6,
        -0.797_316_3,
        0.317_864_48,
        -0.627_672_4,
        -0.885_905_8,
    ];
    rotation.check(163_839, &dims, &want);
    // 11^-0.5 (0.0707 ln 40 + 1)^2.
    assert_eq!(rotation.scale, 0.479_290_34);
}

#[test]
fn without_mscales_yarn_makes_keys_larger_and_leaves_the_scores() {
    let rotation = Rotation::of("tests/programs/qwen3.json");
    let dims = [0, 1, 2, 3, 4, 5];
    let want = [-1.423_286_8, 0.569_314_7, -0.569_314_7, 1.423_286_8, 0.284_657_36, -0.853_972_1];
    rotation.check(0, &dims, &want);
    let want = [-1.966_659_8, 0.566_439_7, -0.569_293_4, -0.428_649_5, 0.290_336_16, -0.853_986_3];
    rotation.check(1, &dims, &want);
    let want = [1.982_959, -0.271_878_54, 0.449_030_2, -0.345_491_23, -0.575_526_83, 0.922_908_2];
    rotation.check(131_071, &dims, &want);
    assert_eq!(rotation.scale, 0.408_248_3);
}

#[test]
fn half_of_each_head_turns_in_glm_4_5_air_and_minimax_m2() {
    let dims = [0, 1, 31, 32, 62, 63, 64, 127];
    let rotation = Rotation::of("shapes/glm-4.5-air.json");
    let want = [0.878_669, -0.413_652_15, 0.935_246_65, 0.923_548, -0.305_837_84, -0.829_345_4, 0.75, 1.0];
    rotation.check(131_071, &dims, &want);
    let rotation = Rotation::of("shapes/minimax-m2.json");
    let want =
        [-1.273_409_5, 1.019_895_2, 0.812_112_4, -0.058_552_61, -0.102_930_65, -0.950_249_1, 0.75, 1.0];
    rotation.check(196_607, &dims, &want);
}
