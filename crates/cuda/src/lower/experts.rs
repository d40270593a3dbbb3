//! Mixtures of experts: gate and up of the chosen experts, their product, down, and the weighted sum.
//!
//! The shared expert is one more slot of each row, whose matrices come last in the lists.

use std::collections::BTreeMap;

use program::{Glu, Rows, Storage, Val, WeightId};

use super::Lowering;
use super::linear::{Choice, Input, Target};
use crate::driver::Address;
use crate::kernel::{Elementwise, GemvInput, Kernel};
use crate::launch::Params;
use crate::weights::storage_number;

impl Lowering<'_> {
    pub(super) fn experts(&mut self, [x, ids, gates, out]: [Val; 4], experts: &Glu, shared: Option<&Glu>) {
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

        let choice = Choice { ids: self.value(ids), top_k, slots, shared: count, expanded: false };
        let input = Input {
            x: self.value(x),
            stride: x.cols,
            features: x.cols,
            count: self.count(Rows::Tokens),
            rows,
            choice: Some(choice),
            kind: GemvInput::Plain,
            second: Address::NULL,
            eps: 0.0,
        };
        let target = |matrices: Address, out: Address, features: u32| Target {
            matrices,
            out,
            added: Address::NULL,
            stride: features,
            features,
        };
        let matrices = |list| self.places.constants.matrices(list);
        let wide = [target(matrices(gate), gated, width), target(matrices(up), lifted, width)];
        let narrow = [target(matrices(down), results, x.cols)];
        let storages = |parts: &[&[crate::weights::Part]]| -> Vec<Storage> {
            let all = parts.iter().flat_map(|parts| parts.iter());
            let by_number: BTreeMap<u32, Storage> =
                all.map(|part| (storage_number(part.storage), part.storage)).collect();
            by_number.into_values().collect()
        };
        let taken = self.taken;
        for storage in storages(&[&parts[0], &parts[1]]) {
            self.taken = taken;
            self.multiply(input, storage, &wide);
        }
        let at = [gated, lifted, products];
        self.elementwise_at(Elementwise::ActMul, at, (self.count(Rows::Tokens), rows, slots), width);
        let choice = Choice { expanded: true, ..choice };
        let input = Input { x: products, stride: width, features: width, choice: Some(choice), ..input };
        for storage in storages(&[&parts[2]]) {
            self.taken = taken;
            self.multiply(input, storage, &narrow);
        }
        let params = Params::new().address(results).address(self.value(gates)).address(self.value(out));
        let params = params.address(self.count(Rows::Tokens)).word(x.cols).word(top_k).word(slots);
        self.by_columns(Kernel::ExpertsSum, rows, x.cols, params);
    }
}
