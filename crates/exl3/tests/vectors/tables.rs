//! Codebook values.

use exl3::Codebook::{self, Mcg, Mul1, ThreeInst};

use crate::sequence::fnv1a_halves;

#[test]
fn the_whole_tables_have_the_published_hashes() {
    assert_eq!(fnv1a_halves(&ThreeInst.table()), 0xfad4_31e7_e926_6898);
    assert_eq!(fnv1a_halves(&Mcg.table()), 0x7bb3_6b05_a3b8_85a7);
    assert_eq!(fnv1a_halves(&Mul1.table()), 0x55e1_c748_ed9f_0cd7);
}

#[test]
fn single_states_have_the_published_values() {
    let states = [0, 1, 2, 3, 255, 4660, 12345, 32768, 43981, 65534, 65535];
    let bits = |codebook: Codebook| states.map(|state| codebook.value(state).to_bits());
    assert_eq!(
        bits(ThreeInst),
        [0x3A25, 0xBB5B, 0x3B74, 0x34B6, 0x3CD1, 0xC066, 0x3C59, 0xB7F8, 0xB98E, 0x410A, 0xB110]
    );
    assert_eq!(
        bits(Mcg),
        [0x3F60, 0x304E, 0xBA13, 0x3AB8, 0xBD26, 0x3E0F, 0xB682, 0xB915, 0x35E7, 0xBCA2, 0x3ACD]
    );
    assert_eq!(
        bits(Mul1),
        [0xC2E8, 0x3921, 0xB72D, 0x3239, 0x3AB3, 0xB89E, 0xBDA3, 0xBAF2, 0xBD42, 0x3702, 0xB936]
    );
}
