//! What a full page of a prefix is called: a chain of hashes that any process computes alike.
//!
//! ```text
//! h[0]     = SHA-256("billfish prefix 1" | len(salt_0) | salt_0 | len(salt_1) | salt_1 | ...)
//! h[i + 1] = SHA-256(h[i] | the page's 64 token ids, 4 bytes each)
//! ```
//!
//! All numbers are little-endian, lengths 8 bytes. A hash names a page together with all before it, so that equal
//! hashes mean equal cached rows, wherever they lie: in a device's pages, in host memory, in a file.

use program::PAGE_TOKENS;
use sha2::{Digest, Sha256};

/// The name of a full page and of all pages before it; of no page at all, it names the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageHash(pub [u8; 32]);

impl PageHash {
    /// Where the chain begins. `salts` is everything beside the tokens that cached rows depend on (the model's weights,
    /// the cache's number format) and whatever else must keep two texts from sharing pages.
    pub fn root(salts: &[&[u8]]) -> PageHash {
        let mut hasher = Sha256::new();
        hasher.update(b"billfish prefix 1");
        for salt in salts {
            hasher.update((salt.len() as u64).to_le_bytes());
            hasher.update(salt);
        }
        PageHash(hasher.finalize().into())
    }

    /// The name of the page after this one.
    pub fn next(&self, tokens: &[u32; PAGE_TOKENS as usize]) -> PageHash {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        let mut bytes = [0; 4 * PAGE_TOKENS as usize];
        for (four, token) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(tokens) {
            *four = token.to_le_bytes();
        }
        hasher.update(bytes);
        PageHash(hasher.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(hash: PageHash) -> String {
        hash.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_hashes_are_those_that_another_program_computes_from_the_formula() {
        // Python's hashlib and struct, by the formula above.
        let root = PageHash::root(&[b"model", b"template"]);
        assert_eq!(hex(root), "a4f8f989a181797c5c4ef7b6ce98c0a3eff29ffa09b1089b608081ac96285d92");
        let first = root.next(&std::array::from_fn(|token| token as u32));
        assert_eq!(hex(first), "5b7e1fbea12faa19265d04cae97aa978a6a3779315bb30e30f4339a631e11152");
        assert_eq!(
            hex(first.next(&[u32::MAX; 64])),
            "298c67cb3c917f7deb44806361c9aa4829f1ce81194749d8ca3c7ab9581791c9"
        );
    }

    #[test]
    fn salts_do_not_run_into_each_other() {
        assert_ne!(PageHash::root(&[b"ab", b"c"]), PageHash::root(&[b"a", b"bc"]));
        assert_ne!(PageHash::root(&[b"", b"c"]), PageHash::root(&[b"c"]));
    }
}
