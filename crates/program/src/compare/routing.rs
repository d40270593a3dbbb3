//! Where two devices choose different experts, and how near a tie that was.

use super::Logits;
use super::report::Both;
use crate::reference::{stay, worths};
use crate::{Groups, Routing, Score};

/// A row for which the other device chose other experts than the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The operation's index in the program.
    pub op: usize,
    /// The row.
    pub row: usize,
    /// The reference's choice, best first.
    pub reference: Vec<u32>,
    /// The other device's choice, best first.
    pub other: Vec<u32>,
    /// How far apart the exchanged experts are in what they are chosen by (score + bias), computed from the
    /// reference's logits: the best of those that only the reference chose less the worst of those that only
    /// the other device chose. Where it chose from a group that was out, the gap is that of the groups: the
    /// least worth of those that stay less the least worth of those that it chose from. Infinite where experts are
    /// chosen by a hash, which has no near ties.
    pub gap: f32,
}

/// What both devices made of a whole step, each choosing for itself.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeRouting {
    /// Their logits.
    pub logits: Logits,
    /// Where they chose differently, in the order of operations, then of rows.
    pub choices: Vec<Choice>,
}

/// Compares ids and gates row by row, as sets: in which order a device names the chosen does not matter here.
/// Returns the rows that differ, and the gates of the others in the order of their experts.
pub(super) fn compare(
    op: usize,
    how: &Routing,
    keys: &[Vec<f32>],
    values: Vec<Both>,
) -> (Vec<Choice>, Vec<Both>) {
    let [ids, gates] = &values[..] else { return (Vec::new(), values) };
    let top_k = how.top_k as usize;
    let mut choices = Vec::new();
    let mut same = Both { val: gates.val, got: Vec::new(), want: Vec::new() };
    for (row, keys) in keys.iter().enumerate() {
        let of_row = row * top_k..(row + 1) * top_k;
        let chosen = |ids: &[f32]| ids[of_row.clone()].iter().map(|id| whole(*id)).collect::<Vec<u32>>();
        let (reference, other) = (chosen(&ids.want), chosen(&ids.got));
        match gap(keys, how.groups, (&reference, &other)) {
            Some(gap) => {
                let gap = if matches!(how.score, Score::Hash { .. }) { f32::INFINITY } else { gap };
                choices.push(Choice { op, row, reference, other, gap });
            }
            None => {
                same.got.extend(in_order(&other, &gates.got[of_row.clone()]));
                same.want.extend(in_order(&reference, &gates.want[of_row]));
            }
        }
    }
    (choices, vec![same])
}

/// An expert's number, or one that no expert has where a device names none.
fn whole(id: f32) -> u32 {
    if id >= 0.0 && id.fract() == 0.0 { id as u32 } else { u32::MAX }
}

/// None if both chose the same experts.
fn gap(keys: &[f32], groups: Option<Groups>, (reference, other): (&[u32], &[u32])) -> Option<f32> {
    let key = |expert: u32| keys.get(expert as usize).copied().unwrap_or(f32::NEG_INFINITY);
    let only = |a: &[u32], b: &[u32]| a.iter().copied().filter(|id| !b.contains(id)).collect::<Vec<_>>();
    let (dropped, taken) = (only(reference, other), only(other, reference));
    if dropped.is_empty() && taken.is_empty() {
        return None;
    }
    if let Some(gap) = groups.and_then(|groups| gap_of_groups(keys, groups, &taken)) {
        return Some(gap);
    }
    let best = dropped.into_iter().map(key).fold(f32::NEG_INFINITY, f32::max);
    let worst = taken.into_iter().map(key).fold(f32::INFINITY, f32::min);
    // An expert taken twice leaves a place that nobody took.
    Some(if worst.is_finite() { best - worst } else { f32::INFINITY })
}

/// None if all experts that were taken belong to groups that stay.
fn gap_of_groups(keys: &[f32], groups: Groups, taken: &[u32]) -> Option<f32> {
    let worths = worths(keys, groups);
    let stay = stay(&worths, groups);
    let size = keys.len() / groups.count as usize;
    let group_of = |expert: &u32| Some(*expert as usize / size).filter(|group| *group < stay.len());
    let out = taken.iter().filter_map(group_of).filter(|group| !stay[*group]);
    let out = out.map(|group| worths[group]).reduce(f32::min)?;
    let kept = worths.iter().zip(&stay).filter(|(_, stays)| **stays).map(|(worth, _)| *worth);
    Some(kept.fold(f32::INFINITY, f32::min) - out)
}

/// The gates of one row in ascending order of their experts.
fn in_order(ids: &[u32], gates: &[f32]) -> Vec<f32> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|slot| ids[*slot]);
    order.into_iter().map(|slot| gates[slot]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_lies_between_the_best_dropped_and_the_worst_taken_expert() {
        let keys = [0.9, 0.5, 0.75, 0.25, 0.375];
        assert_eq!(gap(&keys, None, (&[0, 2], &[2, 0])), None);
        assert_eq!(gap(&keys, None, (&[0, 2], &[0, 1])), Some(0.25));
        assert_eq!(gap(&keys, None, (&[2, 1], &[3, 4])), Some(0.5));
        assert_eq!(gap(&keys, None, (&[0, 2], &[0, 0])), Some(f32::INFINITY));
        assert_eq!(gap(&keys, None, (&[0, 2], &[0, 9])), Some(f32::INFINITY));
    }

    #[test]
    fn an_expert_of_a_group_that_was_out_is_as_far_as_its_group() {
        // Worths 1.25, 1.0 and 0.75: the last group is out.
        let keys = [0.75, 0.5, 0.5, 0.5, 0.625, 0.125];
        let gap = |other: &[u32]| gap(&keys, Some(Groups { count: 3, chosen: 2 }), (&[0, 1], other));
        assert_eq!(gap(&[1, 0]), None);
        assert_eq!(gap(&[0, 4]), Some(0.25));
        assert_eq!(gap(&[4, 5]), Some(0.25));
        // Within the groups that stay the keys count.
        assert_eq!(gap(&[1, 2]), Some(0.25));
        assert_eq!(gap(&[0, 99]), Some(f32::INFINITY));
    }
}
