//! Mixtures of experts: gate and up of the chosen experts, their product, down, and the weighted sum.
//!
//! The shared expert is one more slot of each row, whose matrices come last in the lists.

use std::collections::BTreeMap;

use program::{Glu, Rows, Storage, Val, WeightId};

use super::Lowering;
use super::linear::{Choice, Input, Target};
use crate::driver::Address;
use crate::kernel::{Elementwise, Kernel, LinearInput};
use crate::launch::Params;
use crate::weights::{Part, storage_number};

impl Lowering<'_> {
    pub(super) fn experts(
        &mut self,
        index: usize,
        [x, ids, gates, out]: [Val; 4],
        experts: &Glu,
        shared: Option<&Glu>,
    ) {
        let list = |of: fn(&Glu) -> WeightId| (of(experts), shared.map(of));
        let [gate, up, down] = [list(|glu| glu.gate), list(|glu| glu.up), list(|glu| glu.down)];
        let parts = [gate, up, down].map(|list| crate::constants::parts(self.places.weights, list));
        let width = parts[1].iter().map(|part| part.shape().0).max().unwrap_or(0);
        let count = self.parts(experts.up).len() as u32;
        let (rows, top_k) = (self.size.tokens, ids.cols);
        let slots = top_k + u32::from(shared.is_some());
        let pairs = (rows * slots) as usize;
        let room = |lowering: &mut Self, cols: u32| lowering.room(pairs * cols as usize * 4);
        let [gated, lifted, products, results] = [width, width, width, x.cols].map(|cols| room(self, cols));
        let taken = self.taken;

        let choice = Choice { ids: self.value(ids), top_k, slots, shared: count, expanded: false };
        let target = |matrices: Address, out: Address, features: u32| Target {
            matrices,
            matrix: None,
            out,
            added: Address::NULL,
            stride: features,
            features,
        };
        let matrices = |list| self.places.constants.matrices(list);
        let wide = [target(matrices(gate), gated, width), target(matrices(up), lifted, width)];
        let narrow = [target(matrices(down), results, x.cols)];
        let input = Input { choice: Some(choice), ..self.input(x.into()) };
        for storage in storages(parts[0].iter().chain(&parts[1])) {
            self.taken = taken;
            self.multiply(input, storage, &wide);
        }
        let count = self.count(Rows::Tokens);
        let choice = Some(Choice { expanded: true, ..choice });
        let down = storages(parts[2].iter());
        let input = if self.has_gemv() && down.iter().all(|storage| matches!(storage, Storage::Exl3 { .. })) {
            Input {
                x: gated,
                second: lifted,
                stride: width,
                features: width,
                choice,
                kind: LinearInput::ActMul,
                ..input
            }
        } else {
            self.elementwise_at(Elementwise::ActMul, [gated, lifted, products], (count, rows, slots), width);
            let kind = LinearInput::Plain;
            Input {
                x: products,
                second: Address::NULL,
                stride: width,
                features: width,
                choice,
                kind,
                ..input
            }
        };
        for storage in down {
            self.taken = taken;
            self.multiply(input, storage, &narrow);
        }
        let (out, added) = match self.places.fusions.sum_of(index) {
            Some(sum) => (sum.sum, self.value(sum.x)),
            None => (out, Address::NULL),
        };
        let params =
            Params::new().address(results).address(self.value(gates)).address(added).address(self.value(out));
        let params = params.address(count).word(x.cols).word(top_k).word(slots);
        self.by_columns(Kernel::ExpertsSum, rows, x.cols, params);
    }
}

/// The storages of some matrices, each once.
fn storages<'a>(parts: impl Iterator<Item = &'a Part>) -> Vec<Storage> {
    let by_number: BTreeMap<u32, Storage> =
        parts.map(|part| (storage_number(part.storage), part.storage)).collect();
    by_number.into_values().collect()
}
