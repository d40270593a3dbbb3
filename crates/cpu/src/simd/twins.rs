//! All levels give the numbers of plain code, bit for bit.

use half::f16;
use proptest::array::uniform32;
use proptest::prelude::*;

use super::scalar::Scalar;
use super::{LANES, Simd, levels};

/// Runs an expression on all levels and compares the bits of the eight numbers that it gives with plain code's.
macro_rules! same {
    (|$simd:ident| $numbers:expr) => {{
        let mut want = [0.0_f32; crate::simd::LANES];
        {
            let $simd = crate::simd::scalar::Scalar;
            $simd.store($numbers, &mut want);
        }
        let want = want.map(f32::to_bits);
        crate::simd::levels!(|$simd| {
            let mut got = [0.0_f32; crate::simd::LANES];
            $simd.store($numbers, &mut got);
            prop_assert_eq!(want, got.map(f32::to_bits), "{:?}: {}", $simd, stringify!($numbers));
        });
    }};
}
pub(super) use same;

proptest! {
    #[test]
    fn numbers_are_those_of_plain_code(bytes in uniform32(any::<u8>()), other in uniform32(-1e3_f32..1e3)) {
        let x: [f32; LANES] = *other.first_chunk().unwrap();
        let y: [f32; LANES] = *other[8..].first_chunk().unwrap();
        let halves = bytes.first_chunk().unwrap();
        same!(|simd| simd.splat(x[0]));
        same!(|simd| simd.load_f32_bytes(&bytes));
        same!(|simd| simd.load_bf16_bytes(halves));
        same!(|simd| simd.round_to_f16(simd.load(&x)));
        same!(|simd| simd.add(simd.load(&x), simd.load(&y)));
        same!(|simd| simd.sub(simd.load(&x), simd.load(&y)));
        same!(|simd| simd.mul(simd.load(&x), simd.load(&y)));
        same!(|simd| simd.div(simd.load(&x), simd.load(&y)));
        same!(|simd| simd.max(simd.load(&x), simd.load(&y)));
        same!(|simd| simd.min(simd.load(&x), simd.load(&y)));
        for numbers in [[f32::NAN, 0.5], [0.5, f32::NAN], [0.0, -0.0], [-0.0, 0.0]] {
            let [a, b] = numbers;
            same!(|simd| simd.max(simd.splat(a), simd.splat(b)));
            same!(|simd| simd.min(simd.splat(a), simd.splat(b)));
        }
        same!(|simd| simd.round(simd.load(&x)));
        same!(|simd| simd.round(simd.load(&x.map(|x| x.trunc() + 0.5))));
        same!(|simd| simd.power_of_two(simd.round(simd.mul(simd.load(&x), simd.splat(0.12)))));
        same!(|simd| simd.splat(simd.largest(simd.load(&x))));
        same!(|simd| simd.load_twice(x.first_chunk().unwrap()));
        same!(|simd| {
            simd.sums_of_halves([simd.load(&x), simd.load(&y), simd.splat(x[1]), simd.splat(y[2])])
        });
        for stride in [1, 2, 4] {
            same!(|simd| simd.butterfly(stride, simd.load(&x)));
        }
        for vector in 0..4 {
            same!(|simd| {
                let all = [simd.load(&x), simd.load(&y), simd.splat(x[1]), simd.splat(y[2])];
                simd.splat(simd.sums(all)[vector])
            });
        }
        for column in 0..LANES {
            same!(|simd| {
                let row = |row: usize| simd.mul(simd.load(&x), simd.splat(y[row]));
                simd.transpose([row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)])[column]
            });
        }
    }

    #[test]
    fn numbers_become_the_halves_of_plain_code(bytes in uniform32(any::<u8>()), first in 0_u16..0x7BF8) {
        let between = std::array::from_fn(|lane| {
            let [below, above] = [0, 1].map(|step| f16::from_bits(first + lane as u16 + step).to_f32());
            (below + above) / 2.0
        });
        same!(|simd| simd.round_to_f16(simd.load(&between)));
        // Numbers of all sizes, but no NaN: its bits are the processor's.
        same!(|simd| {
            let most = simd.splat(1e5);
            let all = simd.max(simd.min(simd.load_f32_bytes(&bytes), most), simd.splat(-1e5));
            simd.round_to_f16(all)
        });
        same!(|simd| {
            let mut halves = [0; 2 * LANES];
            simd.store_f16_bytes(simd.load(&between), &mut halves);
            simd.load_bf16_bytes(&halves)
        });
    }

    #[test]
    fn a_product_is_rounded_before_the_addition_or_with_it(numbers in uniform32(-1e3_f32..1e3)) {
        levels!(|simd| {
            let vector = |at: usize| simd.load(numbers[LANES * at..].first_chunk().unwrap());
            let mut got = [0.0; LANES];
            simd.store(simd.mul_add(vector(0), vector(1), vector(2)), &mut got);
            for (lane, got) in got.into_iter().enumerate() {
                let [a, b, c] = [0, 1, 2].map(|at| numbers[LANES * at + lane]);
                prop_assert!(got == a * b + c || got == a.mul_add(b, c), "{simd:?}: {a} * {b} + {c} is not {got}");
            }
        });
    }
}

#[test]
fn every_half_is_read_as_plain_code_reads_it() {
    for first in (0..=u16::MAX).step_by(LANES) {
        let mut bytes = [0; 2 * LANES];
        for (lane, bytes) in (0..).zip(bytes.as_chunks_mut().0) {
            *bytes = (first + lane).to_le_bytes();
        }
        levels!(|simd| {
            let mut got = [0.0; LANES];
            simd.store(simd.load_f16_bytes(&bytes), &mut got);
            for (got, want) in got.into_iter().zip(Scalar.load_f16_bytes(&bytes)) {
                assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
            }
        });
    }
}
