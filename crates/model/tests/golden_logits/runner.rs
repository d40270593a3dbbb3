//! A model on one device.

use model::Model;
use program::reference::Reference;
use program::{
    CacheSize, Device, Options, Output, PAGE_TOKENS, PageId, ProgramId, Sequence, Size, Step, Token, Want,
};

/// The most tokens of a sequence.
const PLACES: u32 = 2048;

/// One sequence of a loaded model.
pub(crate) struct Runner {
    device: Box<dyn Device>,
    program: ProgramId,
}

impl Runner {
    /// Loads a model into the reference device for steps of up to `tokens` tokens.
    pub(crate) fn new(model: &Model, tokens: u32) -> Runner {
        Runner::on(Box::new(Reference::new()), model, tokens)
    }

    /// Loads a model into a device.
    pub(crate) fn on(mut device: Box<dyn Device>, model: &Model, tokens: u32) -> Runner {
        let mut uploaded = 0;
        model.load(&mut *device, &mut |bytes| uploaded = bytes).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(uploaded, model.weight_bytes());
        let caches = CacheSize { pages: PLACES / PAGE_TOKENS + 1, slots: 1 };
        device.reserve(&model.spec.caches, caches).unwrap();
        let size = Size { tokens, outputs: tokens, sequences: 1 };
        let program = device.prepare(&model.spec.programs[0], &Options::new(size)).unwrap();
        Runner { device, program }
    }

    /// The logits of the rows from `first` on of a new sequence, fed in chunks.
    pub(crate) fn logits(&mut self, ids: &[u32], chunk: u32, first: u32) -> Vec<f32> {
        let pages: Vec<PageId> = (1..=PLACES / PAGE_TOKENS).map(PageId).collect();
        let mut logits = Vec::new();
        let mut cached = 0;
        for ids in ids.chunks(chunk as usize) {
            let rows = ids.len() as u32;
            let tokens: Vec<Token> = ids.iter().map(|&id| Token::Id(id)).collect();
            let positions: Vec<u32> = (cached..cached + rows).collect();
            let outputs: Vec<Output> = (first.clamp(cached, cached + rows) - cached..rows)
                .map(|row| Output { row, want: Want::Logits })
                .collect();
            let sequence = Sequence { rows: 0..rows, cached, pages: 0..pages.len() as u32, slot: 0 };
            let step = Step {
                tokens: &tokens,
                positions: &positions,
                sequences: &[sequence],
                pages: &pages,
                outputs: &outputs,
            };
            let ticket = self.device.submit(self.program, &step).unwrap();
            logits.extend_from_slice(self.device.wait(ticket).unwrap().logits);
            cached += rows;
        }
        logits
    }
}
