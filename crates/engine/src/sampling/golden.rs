//! Penalties and filters against those of transformers (`tools/golden_sampling.py`).

use std::cell::RefCell;

use program::Draw;
use program::draw::Candidates;
use serde_json::Value;

use super::penalties::{Penalties, Seen};
use super::shape;

fn cases() -> Vec<Value> {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../../../tests/golden/sampling.json")).unwrap();
    assert!(cases.len() >= 6);
    cases
}

fn number(case: &Value, key: &str) -> f32 {
    case[key].as_f64().unwrap() as f32
}

fn numbers(case: &Value, key: &str) -> Vec<f32> {
    case[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn ids(case: &Value, key: &str) -> Vec<u32> {
    case[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn penalised(case: &Value) -> Vec<f32> {
    let mut seen = Seen::default();
    ids(case, "prompt").into_iter().for_each(|token| seen.prompt(token));
    ids(case, "answer").into_iter().for_each(|token| seen.answer(token));
    let mut logits = numbers(case, "logits");
    Penalties { repetition: number(case, "repetition"), ..Penalties::NONE }.apply(&seen, &mut logits);
    logits
}

#[test]
fn repetition_penalties_are_those_of_transformers() {
    for case in cases() {
        for (got, want) in penalised(&case).iter().zip(numbers(&case, "penalised")) {
            // One rounding each.
            assert!((got - want).abs() <= 1e-6 * want.abs(), "{got} {want}");
        }
    }
}

#[test]
fn typical_keeps_the_tokens_that_transformers_keeps() {
    for case in cases() {
        let mut logits = penalised(&case);
        let (mass, temperature) = (number(&case, "typical_mass"), number(&case, "temperature"));
        shape::typical(mass, temperature, &mut logits, &mut Vec::new());
        let kept: Vec<u32> =
            (0..).zip(&logits).filter(|(_, logit)| logit.is_finite()).map(|(id, _)| id).collect();
        assert_eq!(kept, ids(&case, "typical"));
    }
}

#[test]
fn top_k_top_p_and_min_p_keep_the_tokens_that_transformers_keeps_at_its_probabilities() {
    for case in cases() {
        let draw = Draw {
            temperature: number(&case, "temperature"),
            top_k: number(&case, "top_k") as u32,
            top_p: number(&case, "top_p"),
            min_p: number(&case, "min_p"),
            random: 0.0,
        };
        let kept = ids(&case, "kept");
        let shown = RefCell::new(Vec::new());
        for (passed, want) in kept.iter().enumerate() {
            let token = draw.token_past(&penalised(&case), &mut Candidates::default(), |probabilities| {
                *shown.borrow_mut() = probabilities.collect();
                passed
            });
            assert_eq!(token, *want);
        }
        let (shown, want) = (shown.into_inner(), numbers(&case, "probabilities"));
        assert_eq!(shown.len(), want.len());
        for (got, want) in shown.iter().zip(want) {
            // Logits of up to 30 in f32 are off by 2e-6, and so are the exponents.
            assert!((*got as f32 - want).abs() <= 1e-5 * want, "{got} {want}");
        }
    }
}
