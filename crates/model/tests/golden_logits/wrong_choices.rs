//! That golden logits see what an architecture can get wrong: each choice, made the other way in a program that
//! is right, takes the logits far from them.

use program::{Gates, Op, Pairing, Rope};

use crate::runner::Runner;
use crate::{FLOAT32, open, worst};

/// A golden source of the repository, what is wrong, and what makes its program so.
type Wrong = (&'static str, &'static str, fn(&mut [Op]));

const WRONG: [Wrong; 29] = [
    ("qwen3", "pairs of neighbours turn", interleave),
    ("qwen3", "norms after the rotation", norm_after_rotation),
    ("qwen3", "no norms on query and key", leave_norms_out),
    ("glm4_moe", "pairs of neighbours turn", interleave),
    ("glm4_moe", "the whole head turns", rotate_whole_heads),
    ("glm4_moe", "the last dims turn", rotate_last_dims),
    ("glm4_moe", "norms after the rotation", norm_after_rotation),
    ("glm4_moe", "no choice bias", leave_bias_out),
    ("glm4_moe", "gates as they are", leave_gates_raw),
    ("glm4_moe", "no scale on the gates", leave_scale_out),
    ("minimax_m2", "pairs of neighbours turn", interleave),
    ("minimax_m2", "the whole head turns", rotate_whole_heads),
    ("minimax_m2", "norms after the rotation", norm_after_rotation),
    ("minimax_m2", "no choice bias", leave_bias_out),
    ("minimax_m2", "gates as they are", leave_gates_raw),
    ("minimax_m2", "w1 and w3 exchanged", exchange_gate_and_up),
    ("olmo2", "pairs of neighbours turn", interleave),
    ("olmo2", "norms after the rotation", norm_after_rotation),
    ("olmo2", "no norms on query and key", leave_norms_out),
    ("olmo2", "norms before the parts", norm_before_parts),
    ("olmo2", "norms after the sums", norm_after_sums),
    ("olmo2", "no norms after the parts", leave_norms_of_parts_out),
    ("deepseek_v3", "pairs half the rotary part apart turn", split_halves),
    ("deepseek_v3", "no groups", leave_groups_out),
    ("deepseek_v3", "one group fewer", choose_fewer_groups),
    ("deepseek_v3", "no choice bias", leave_bias_out),
    ("deepseek_v3", "YaRN's gain on cosine and sine as well", gain_as_without_mscale),
    ("deepseek_v3", "no gain on the scores", leave_score_gain_out),
    ("deepseek_v3", "frequencies without YaRN", leave_yarn_out),
];

#[test]
fn each_choice_made_the_other_way_is_far_from_the_golden_logits() {
    for (folder, wrong, change) in WRONG {
        let (mut model, golden) = open(&golden::folder().join("sources").join(folder));
        let ops = &mut model.spec.programs[0].ops;
        let right = ops.clone();
        change(ops);
        assert_ne!(*ops, right, "{folder}, {wrong}: nothing was changed");
        let logits = Runner::new(&model, 128).logits(&golden.ids("ids"), 128, 0);
        let error = worst(&logits, &golden.f32("logits"), model.facts.vocab as usize);
        println!("{folder}, {wrong}: {error:.1e}");
        assert!(error >= 100.0 * FLOAT32, "{folder}, {wrong}: {error}");
    }
}

fn ropes(ops: &mut [Op], change: fn(&mut Rope)) {
    for op in ops {
        if let Op::Rope { rope, .. } = op {
            change(rope);
        }
    }
}

fn interleave(ops: &mut [Op]) {
    ropes(ops, |rope| rope.pairing = Pairing::Interleaved);
}

fn split_halves(ops: &mut [Op]) {
    ropes(ops, |rope| rope.pairing = Pairing::HalfSplit);
}

/// Frequencies of `dims` dims without scaling.
fn unscaled(rope: &Rope, theta: f32, dims: usize) -> Rope {
    let frequencies = (0..dims / 2).map(|pair| theta.powf(-2.0 * pair as f32 / dims as f32));
    Rope { inverse_frequencies: frequencies.collect(), ..rope.clone() }
}

fn leave_yarn_out(ops: &mut [Op]) {
    ropes(ops, |rope| *rope = unscaled(rope, 1e4, 2 * rope.inverse_frequencies.len()));
}

/// 0.1 ln 4 + 1.
fn gain_as_without_mscale(ops: &mut [Op]) {
    ropes(ops, |rope| rope.gain = 1.138_629_4);
}

fn rotate_whole_heads(ops: &mut [Op]) {
    for op in ops {
        if let Op::Rope { heads, rope, .. } = op {
            heads.rotary = heads.dims;
            // Pair 1 turns by theta^(-1 / pairs).
            let theta = rope.inverse_frequencies[1].powf(-(rope.inverse_frequencies.len() as f32));
            *rope = unscaled(rope, theta, heads.dims as usize);
        }
    }
}

fn rotate_last_dims(ops: &mut [Op]) {
    for op in ops {
        if let Op::Rope { heads, .. } = op {
            heads.first = heads.dims - heads.rotary;
        }
    }
}

/// For each norm whose result is rotated: the two operations' places.
fn norms_before_rotation(ops: &[Op]) -> Vec<(usize, usize)> {
    let place = |(norm, op): (usize, &Op)| match op {
        Op::RmsNorm { out, .. } => {
            let rotates = |op: &Op| matches!(op, Op::Rope { x, .. } if x.val == *out);
            ops.iter().position(rotates).map(|rotation| (norm, rotation))
        }
        _ => None,
    };
    ops.iter().enumerate().filter_map(place).collect()
}

fn norm_after_rotation(ops: &mut [Op]) {
    for (first, second) in norms_before_rotation(ops) {
        ops.swap(first, second);
        let [Op::Rope { x: of_rope, out: turned, .. }, Op::RmsNorm { x: of_norm, out: normed, .. }] =
            ops.get_disjoint_mut([first, second]).unwrap()
        else {
            panic!("another operation");
        };
        std::mem::swap(of_rope, of_norm);
        std::mem::swap(turned, normed);
    }
}

fn leave_norms_out(ops: &mut [Op]) {
    for (norm, rotation) in norms_before_rotation(ops) {
        let Op::RmsNorm { x: before, .. } = ops[norm] else { panic!("another operation") };
        let Op::Rope { x, .. } = &mut ops[rotation] else { panic!("another operation") };
        *x = before;
    }
}

/// For each sum of the stream and a norm: the two operations' places.
fn norms_before_sums(ops: &[Op]) -> Vec<(usize, usize)> {
    let place = |(sum, op): (usize, &Op)| match op {
        Op::Add { b, .. } => {
            let makes = |op: &Op| matches!(op, Op::RmsNorm { out, .. } if out == b);
            ops.iter().position(makes).map(|norm| (norm, sum))
        }
        _ => None,
    };
    ops.iter().enumerate().filter_map(place).collect()
}

/// `h + part(norm(h))`; a part begins with the one operation that reads the stream.
fn norm_before_parts(ops: &mut [Op]) {
    for (norm, sum) in norms_before_sums(ops) {
        let Op::Add { a: stream, .. } = ops[sum] else { panic!("another operation") };
        let part = ops.iter().position(|op| op.reads().contains(&stream)).unwrap();
        let [Op::Linear { x: of_part, .. }, Op::RmsNorm { x: of_norm, .. }, Op::Add { b: delta, .. }] =
            ops.get_disjoint_mut([part, norm, sum]).unwrap()
        else {
            panic!("another operation");
        };
        std::mem::swap(&mut of_part.val, delta);
        std::mem::swap(&mut of_norm.val, delta);
        ops[part..=norm].rotate_right(1);
    }
}

/// `norm(h + part(h))`.
fn norm_after_sums(ops: &mut [Op]) {
    for (first, second) in norms_before_sums(ops) {
        ops.swap(first, second);
        let [Op::Add { b: delta, out: summed, .. }, Op::RmsNorm { x: of_norm, out: normed, .. }] =
            ops.get_disjoint_mut([first, second]).unwrap()
        else {
            panic!("another operation");
        };
        std::mem::swap(&mut of_norm.val, delta);
        std::mem::swap(summed, normed);
    }
}

fn leave_norms_of_parts_out(ops: &mut [Op]) {
    for (norm, sum) in norms_before_sums(ops) {
        let Op::RmsNorm { x: before, .. } = ops[norm] else { panic!("another operation") };
        let Op::Add { b, .. } = &mut ops[sum] else { panic!("another operation") };
        *b = before.val;
    }
}

fn leave_bias_out(ops: &mut [Op]) {
    for op in ops {
        if let Op::Route { bias, .. } = op {
            *bias = None;
        }
    }
}

fn leave_gates_raw(ops: &mut [Op]) {
    for op in ops {
        if let Op::Route { how, .. } = op {
            how.gates = Gates::Raw;
        }
    }
}

fn leave_scale_out(ops: &mut [Op]) {
    for op in ops {
        if let Op::Route { how, .. } = op {
            how.scale = 1.0;
        }
    }
}

fn leave_groups_out(ops: &mut [Op]) {
    for op in ops {
        if let Op::Route { how, .. } = op {
            how.groups = None;
        }
    }
}

fn choose_fewer_groups(ops: &mut [Op]) {
    for op in ops {
        if let Op::Route { how, .. } = op
            && let Some(groups) = &mut how.groups
        {
            groups.chosen -= 1;
        }
    }
}

fn exchange_gate_and_up(ops: &mut [Op]) {
    for op in ops {
        if let Op::Experts { experts, .. } = op {
            std::mem::swap(&mut experts.gate, &mut experts.up);
        }
    }
}

fn leave_score_gain_out(ops: &mut [Op]) {
    for op in ops {
        if let Op::AttendMla { shape, .. } = op {
            shape.scale = ((shape.nope + shape.rotary) as f32).powf(-0.5);
        }
    }
}
