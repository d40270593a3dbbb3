//! What holds for all inputs, tried on random ones.

use exl3::hadamard::{BLOCK, hadamard_128, padded, walsh_hadamard};
use exl3::kv::{self, CacheBits};
use exl3::trellis::{fresh_bits, pack, unpack};
use exl3::{Bits, Codebook, Embedding, EmbeddingParts, Error, Linear, LinearParts, signs};
use half::f16;
use proptest::array::uniform32;
use proptest::prelude::*;
use proptest::sample::select;

fn widths() -> impl Strategy<Value = Bits> {
    select(Bits::ALL.to_vec())
}

fn halves(length: usize) -> impl Strategy<Value = Vec<f16>> {
    proptest::collection::vec(any::<u16>().prop_map(f16::from_bits), length)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn states_of_a_ring_survive_packing(bits in widths(), random in proptest::collection::vec(any::<u16>(), 256)) {
        // A shift register that has gone around once holds what the ring holds.
        let mut states = [0_u16; 256];
        let mut state = 0_u16;
        for t in (0..256).chain(0..256) {
            let fresh = fresh_bits(bits, t);
            state = state << fresh | random[t] & ((1 << fresh) - 1);
            states[t] = state;
        }
        let mut tile = vec![0; bits.tile_bytes()];
        pack(&states, bits, &mut tile);
        let mut again = [0; 256];
        unpack(&tile, bits, &mut again);
        prop_assert_eq!(again, states);
    }

    #[test]
    fn every_string_of_bytes_is_a_tile(bits in widths(), random in proptest::collection::vec(any::<u8>(), 256)) {
        let tile = &random[..bits.tile_bytes()];
        let mut states = [0; 256];
        unpack(tile, bits, &mut states);
        let mut again = vec![0; tile.len()];
        pack(&states, bits, &mut again);
        prop_assert_eq!(again, tile);
    }

    #[test]
    fn packing_looks_at_fresh_bits_only(bits in widths(), states in proptest::collection::vec(any::<u16>(), 256)) {
        let states: [u16; 256] = states.try_into().unwrap();
        let mut fresh_only = states;
        for (t, state) in fresh_only.iter_mut().enumerate() {
            *state &= (1 << fresh_bits(bits, t)) - 1;
        }
        let (mut tile, mut same) = (vec![0; bits.tile_bytes()], vec![0; bits.tile_bytes()]);
        pack(&states, bits, &mut tile);
        pack(&fresh_only, bits, &mut same);
        prop_assert_eq!(tile, same);
    }

    #[test]
    fn the_transform_twice_is_the_identity(values in proptest::collection::vec(-100.0_f32..100.0, 2 * BLOCK)) {
        let mut twice = values.clone();
        hadamard_128(&mut twice);
        hadamard_128(&mut twice);
        // 14 additions and two products an f32 long, each 2^-24 of at most 100 sqrt(128).
        for (got, want) in twice.iter().zip(&values) {
            prop_assert!((got - want).abs() < 16.0 * 100.0 * 11.4 * 2.0_f32.powi(-24), "{got}, needed {want}");
        }
    }

    #[test]
    fn the_transform_of_one_feature_is_its_row_of_signs(log in 0_u32..9, seed in any::<usize>()) {
        let length = 1 << log;
        let feature = seed % length;
        let mut values = vec![0.0; length];
        values[feature] = 1.0;
        walsh_hadamard(&mut values);
        for (other, &value) in values.iter().enumerate() {
            prop_assert_eq!(value, if (feature & other).count_ones() % 2 == 0 { 1.0 } else { -1.0 });
        }
    }

    #[test]
    fn a_layer_view_never_panics_whatever_the_sizes(
        shape in [0_usize..20, 0_usize..20, 0_usize..130],
        lengths in [0_usize..300, 0_usize..300, 0_usize..300],
        huge in select(vec![0, 1, 1 << 40, usize::MAX / 2, usize::MAX]),
        which in 0_usize..6,
        codebook in select(Codebook::ALL.to_vec()),
    ) {
        let mut shape = shape;
        if which < 3 {
            shape[which] = huge;
        }
        let bytes = 2 * shape.iter().fold(1, |product: usize, &size| product.saturating_mul(size)).min(50_000);
        let trellis = vec![0x93; bytes - usize::from(which == 3 && bytes > 0)];
        let scales = vec![f16::ONE; 300];
        let linear = Linear::new(LinearParts {
            trellis: &trellis,
            shape,
            suh: &scales[..lengths[0]],
            svh: &scales[..lengths[1]],
            bias: (which % 2 == 0).then_some(&scales[..lengths[2]]),
            codebook,
        });
        if let Ok(linear) = linear {
            prop_assert_eq!(linear.inner().len(), linear.in_features() * linear.out_features());
        }
    }

    #[test]
    fn a_layer_view_with_the_right_sizes_decodes_whatever_the_bytes(
        bits in widths(),
        tiles in [1_usize..3, 1_usize..3],
        seed in any::<u8>(),
        suh in halves(256),
        svh in halves(256),
    ) {
        let shape = [8 * tiles[0], 8 * tiles[1], bits.tile_words()];
        let trellis: Vec<u8> =
            (0..2 * shape.iter().product::<usize>()).map(|i| (i * 167 + i / 256) as u8 ^ seed).collect();
        let (suh, svh) = (&suh[..16 * shape[0]], &svh[..16 * shape[1]]);
        let finite = suh.iter().chain(svh).all(|scale| scale.is_finite());
        let parts = LinearParts { trellis: &trellis, shape, suh, svh, bias: None, codebook: Codebook::Mul1 };
        match Linear::new(parts) {
            Ok(linear) => {
                prop_assert!(finite);
                prop_assert!(linear.inner().iter().all(|value| value.is_finite()));
            }
            Err(error) => {
                let is_not_finite = matches!(error, Error::NotFinite { .. });
                prop_assert!(is_not_finite && !finite, "{}", error);
            }
        }
    }

    #[test]
    fn an_embedding_view_never_panics_whatever_the_sizes(
        vocab in select(vec![0, 1, 3, usize::MAX]),
        words in select(vec![0, 16, 17, 33, 34, 66, 257, 258, 514, usize::MAX]),
        bytes in select(vec![0, 34, 66, 99, 102, 198, 204, 1542]),
        signs in select(vec![0, 255, 256, 512]),
        hidden in select(vec![0, 1, 255, 256, 257, 512, usize::MAX]),
        token in select(vec![0, 1, 2, 3, usize::MAX]),
    ) {
        let trellis = vec![0x35; bytes];
        if let Ok(table) = Embedding::new(EmbeddingParts {
            trellis: &trellis,
            shape: [vocab, words],
            signs: &[f16::ONE; 512][..signs],
            hidden,
        }) {
            let known = table.row(token, &mut vec![f16::ZERO; hidden]).is_ok();
            prop_assert_eq!(known, token < table.vocab());
        }
    }

    #[test]
    fn an_embedding_row_decodes_whatever_the_bytes(bytes in proptest::collection::vec(any::<u8>(), 2 * 2 * 257)) {
        for k in 1..=8 {
            let words = 2 * (1 + 16 * k);
            let shape = [1, words];
            let signs = [f16::NEG_ONE; 512];
            let parts = EmbeddingParts { trellis: &bytes[..2 * words], shape, signs: &signs, hidden: 300 };
            let mut row = [f16::ZERO; 300];
            let scale = |ring: usize| f16::from_le_bytes([bytes[ring * words], bytes[ring * words + 1]]);
            let finite = scale(0).is_finite() && scale(1).is_finite();
            prop_assert_eq!(Embedding::new(parts).unwrap().row(0, &mut row).is_ok(), finite);
        }
    }

    #[test]
    fn packed_signs_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), features in 0_usize..400) {
        match signs::expand(&bytes, features) {
            Ok(signs) => prop_assert_eq!(signs.len(), features),
            Err(error) => {
                let is_size = matches!(error, Error::Size { .. });
                prop_assert!(is_size);
            }
        }
    }

    #[test]
    fn a_cached_group_comes_back_within_half_a_step(values in uniform32(-8.0_f32..8.0), bits in 2_u8..=8) {
        let bits = CacheBits::new(bits).unwrap();
        let mut words = vec![0; bits.group_words()];
        let scale = kv::encode(&values, bits, &mut words);
        let mut decoded = [0.0; kv::GROUP];
        kv::decode(&words, scale, bits, &mut decoded);
        let error: f32 = decoded.iter().zip(&values).map(|(got, want)| (got - want).powi(2)).sum::<f32>().sqrt();
        // The rotation keeps norms. In it each of 32 values is off by half a step of s / 2^(b-1) and by the
        // rounding of s (2^-11); then each result is rounded to a half (2^-11 of at most the group's norm).
        let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        let half_step = scale.to_f32() / f32::from(1_u16 << bits.get());
        let bound = 32.0_f32.sqrt() * half_step * 1.001 + norm * 2.0_f32.powi(-10);
        prop_assert!(error <= bound, "{error} of at most {bound} at {bits} bits");
    }
}

#[test]
fn sizes_are_padded_to_blocks_of_128() {
    let sizes = [(0, 0), (1, 128), (128, 128), (129, 256), (576, 640), (2880, 2944)];
    for (features, wanted) in sizes {
        assert_eq!(padded(features), wanted);
    }
}

#[test]
fn a_broken_value_shows_in_the_whole_cached_group() {
    for broken in [f32::NAN, f32::INFINITY, 1e9] {
        for position in 0..kv::GROUP {
            let mut values = [0.5; kv::GROUP];
            values[position] = broken;
            let bits = CacheBits::new(4).unwrap();
            let mut words = [0; 4];
            let scale = kv::encode(&values, bits, &mut words);
            assert!(!scale.is_finite());
            kv::decode(&words, scale, bits, &mut values);
            assert!(values.iter().all(|value| !value.is_finite()), "{broken} at {position}");
        }
    }
}

#[test]
fn a_group_of_zeros_comes_back_as_zeros() {
    for bits in (2..=8).filter_map(CacheBits::new) {
        let mut words = vec![0; bits.group_words()];
        let scale = kv::encode(&[0.0; kv::GROUP], bits, &mut words);
        let mut values = [1.0; kv::GROUP];
        kv::decode(&words, scale, bits, &mut values);
        assert_eq!(values, [0.0; kv::GROUP]);
    }
}
