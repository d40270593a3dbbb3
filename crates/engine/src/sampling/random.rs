//! Random numbers that anybody can reproduce.

/// A number in `[0, 1)` made of a seed and a place: output number `place` (from 0) of the SplitMix64
/// generator started at `seed` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014), of which the upper 24 bits are kept, as many as an `f32` holds.
pub fn random(seed: u64, place: u32) -> f32 {
    let mut z = seed.wrapping_add((u64::from(place) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f32 / (1u32 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The first outputs for seed 1234567 are published with the generator's test program.
        let published = [6457827717110365317u64, 3203168211198807973, 9817491932198370423];
        for (place, output) in published.into_iter().enumerate() {
            assert_eq!(random(1234567, place as u32), (output >> 40) as f32 / 16777216.0);
        }
    }

    #[test]
    fn the_numbers_fill_the_unit_interval_evenly() {
        let mut tenths = [0; 10];
        for seed in 0..100 {
            for place in 0..100 {
                let number = random(seed, place);
                assert!((0.0..1.0).contains(&number));
                tenths[(number * 10.0) as usize] += 1;
            }
        }
        // 1,000 each are expected, with a standard deviation of 30.
        assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
    }

    #[test]
    fn another_seed_or_place_gives_another_number() {
        assert_eq!(random(7, 3), random(7, 3));
        assert_ne!(random(7, 3), random(8, 3));
        assert_ne!(random(7, 3), random(7, 4));
    }
}
