//! Files that were cut or changed: each opens or is refused with a sentence, and none ends the process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use program::random::SplitMix64;
use program::reference::Reference;

use crate::writer::{File, Gguf};

/// Opens and loads; what the sentence of a refusal is.
fn refusal(bytes: &[u8], what: &str) -> Option<String> {
    let file = File::new(bytes);
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let model = file.open().map_err(|error| error.to_string())?;
        model.load(&mut Reference::new(), &mut |_| {}).map_err(|error| error.to_string())
    }));
    let result = opened.unwrap_or_else(|_| panic!("{what}: a panic"));
    let refusal = result.err()?;
    assert!(refusal.contains("small.gguf"), "{what}: {refusal}");
    Some(refusal)
}

#[test]
fn every_file_that_is_cut_short_is_refused() {
    let (header, bytes) = Gguf::llama().bytes();
    assert_eq!(refusal(&bytes, "whole"), None);
    let places = (0..200).chain((200..header).step_by(23)).chain((header..bytes.len()).step_by(4099));
    for length in places.chain([header - 1, bytes.len() - 1]) {
        assert!(
            refusal(&bytes[..length], &format!("{length} bytes")).is_some(),
            "{length} bytes are accepted"
        );
    }
}

#[test]
fn any_byte_of_the_header_may_be_another() {
    let (header, bytes) = Gguf::llama().bytes();
    let mut random = SplitMix64::new(3);
    for _ in 0..1500 {
        let mut bytes = bytes.clone();
        // Half of them where lengths, kinds and counts are, which the tokens outnumber.
        let most = if random.below(2) == 0 { 900 } else { header as u32 };
        let at = random.below(most) as usize;
        bytes[at] = [0, 1, 0x7f, 0xff, random.below(256) as u8][random.below(5) as usize];
        refusal(&bytes, &format!("byte {at} as {}", bytes[at]));
    }
}

#[test]
fn lengths_that_no_memory_holds_are_refused_at_once() {
    let (header, bytes) = Gguf::llama().bytes();
    for at in (8..header - 8).step_by(13).chain([8, 16, 24]) {
        for number in [u64::MAX, u64::MAX / 8, 1 << 40, 1 << 31] {
            let mut bytes = bytes.clone();
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            refusal(&bytes, &format!("{number} at byte {at}"));
        }
    }
}
