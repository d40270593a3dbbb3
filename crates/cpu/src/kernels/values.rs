//! States to weights, as whole numbers and as `f32`.
//!
//! States come in pairs, two a lane (see [`super::tile`]), and are hashed sixteen at a time in numbers of 16
//! bits: with M = 2^16 Mu + Ml the product s M has the lower half `l = s Ml mod 2^16` and the upper half
//! `u = (s Ml / 2^16 + s Mu) mod 2^16`. The weights, before the format's rounding to a half:
//!
//! ```text
//! mul1        w = c (b + d / c)   b = byte sum, 0 to 1020; c = 0.00676727..., d = -3.453125
//! 3inst, mcg  w = the sum of two halves of magnitude 0.125 to 2
//! ```
//!
//! What the rounding would change is at most 2^-12 of a weight above 1 (2^-11 for mul1, in units of its
//! power of two, as any rounding to 11 bits), less than the products' other roundings allow for.
//!
//! As whole numbers the weights are `unit (number - centre)`: for mul1 the byte sum, exactly; for the others
//! multiples of 2^-10, which is the spacing of halves between 1 and 2.

use exl3::{Codebook, codebook};

use crate::simd::Simd;

/// A codebook known when the kernel is compiled.
pub(crate) trait Values: Copy + Send + Sync + 'static {
    /// The weights as numbers of 16 bits, lane for lane.
    fn integers<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [S::U32; N];
    /// The weights of the lower states and those of the upper ones.
    fn floats<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [[S::F32; N]; 2];
}

/// What integers stand for.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// The weight of 1.
    pub(crate) unit: f64,
    /// The integer of weight 0.
    pub(crate) centre: f64,
    /// The largest activation. 64 products of it with the largest integer are below 2^31:
    /// 1020 * 32767 * 64 and 4094 * 8191 * 64.
    pub(crate) largest: f32,
}

impl Scale {
    pub(crate) fn of(codebook: Codebook) -> Scale {
        match codebook {
            Codebook::Mul1 => {
                let unit = codebook::BYTE_SUM_SCALE.to_f64();
                let offset = codebook::BYTE_SUM_OFFSET.to_f64() + 1024.0 * unit;
                Scale { unit, centre: -offset / unit, largest: 32767.0 }
            }
            Codebook::ThreeInst | Codebook::Mcg => Scale { unit: 1.0 / 1024.0, centre: 0.0, largest: 8191.0 },
        }
    }
}

/// [`Codebook::ThreeInst`].
#[derive(Clone, Copy)]
pub(crate) struct ThreeInst;
/// [`Codebook::Mcg`].
#[derive(Clone, Copy)]
pub(crate) struct Mcg;
/// [`Codebook::Mul1`].
#[derive(Clone, Copy)]
pub(crate) struct Mul1;

/// `f` of each vector.
#[inline(always)]
fn each<A: Copy, B: Copy, const N: usize>(zero: B, a: [A; N], f: impl Fn(A) -> B) -> [B; N] {
    let mut results = [zero; N];
    for (result, a) in results.iter_mut().zip(a) {
        *result = f(a);
    }
    results
}

/// `f` of each pair of vectors.
#[inline(always)]
fn both<A: Copy, const N: usize>(a: [A; N], b: [A; N], f: impl Fn(A, A) -> A) -> [A; N] {
    let mut results = a;
    for (result, b) in results.iter_mut().zip(b) {
        *result = f(*result, b);
    }
    results
}

/// The lower and the upper halves of `states * multiplier`, sixteen of each a vector.
#[inline(always)]
fn products<S: Simd, const N: usize>(simd: S, states: [S::U32; N], codebook: Codebook) -> [[S::U32; N]; 2] {
    let multiplier = codebook.multiplier();
    let twice = |half: u32| simd.splat_u32(half | half << 16);
    let (lower, upper) = (twice(multiplier & 0xFFFF), twice(multiplier >> 16));
    let zero = simd.splat_u32(0);
    let carried = each(
        zero,
        states,
        #[inline(always)]
        |s| simd.mul_upper_16(s, lower),
    );
    let lowest = each(
        zero,
        states,
        #[inline(always)]
        |s| simd.mul_lower_16(s, lower),
    );
    let highest = each(
        zero,
        states,
        #[inline(always)]
        |s| simd.mul_lower_16(s, upper),
    );
    [
        lowest,
        both(
            carried,
            highest,
            #[inline(always)]
            |a, b| simd.add_16(a, b),
        ),
    ]
}

/// The lower and the upper 16 bits of lanes, each in lanes of their own.
#[inline(always)]
fn apart<S: Simd, const N: usize>(simd: S, a: [S::U32; N]) -> [[S::U32; N]; 2] {
    let zero = simd.splat_u32(0);
    let (mask, half) = (simd.splat_u32(0xFFFF), simd.splat_u32(16));
    [
        each(
            zero,
            a,
            #[inline(always)]
            |a| simd.and(a, mask),
        ),
        each(
            zero,
            a,
            #[inline(always)]
            |a| simd.shr(a, half),
        ),
    ]
}

impl Values for Mul1 {
    #[inline(always)]
    fn integers<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [S::U32; N] {
        let zero = simd.splat_u32(0);
        let [lower, upper] = products(simd, states, Codebook::Mul1);
        let lower = each(
            zero,
            lower,
            #[inline(always)]
            |a| simd.sum_bytes_16(a),
        );
        let upper = each(
            zero,
            upper,
            #[inline(always)]
            |a| simd.sum_bytes_16(a),
        );
        both(
            lower,
            upper,
            #[inline(always)]
            |a, b| simd.add_16(a, b),
        )
    }

    #[inline(always)]
    fn floats<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [[S::F32; N]; 2] {
        const SCALE: f32 = codebook::BYTE_SUM_SCALE.to_f32_const();
        // All exact before the rounding: 1024 times the scale, plus the offset, is -3.453125.
        const OFFSET: f32 = 1024.0 * SCALE + codebook::BYTE_SUM_OFFSET.to_f32_const();
        let (zero, scale, offset) = (simd.splat(0.0), simd.splat(SCALE), simd.splat(OFFSET));
        let [lower, upper] = apart(simd, Mul1::integers(simd, states));
        [
            each(
                zero,
                lower,
                #[inline(always)]
                |sum| simd.mul_add(simd.to_f32(sum), scale, offset),
            ),
            each(
                zero,
                upper,
                #[inline(always)]
                |sum| simd.mul_add(simd.to_f32(sum), scale, offset),
            ),
        ]
    }
}

impl Values for Mcg {
    #[inline(always)]
    fn integers<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [S::U32; N] {
        rounded(simd, Mcg::floats(simd, states))
    }

    #[inline(always)]
    fn floats<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [[S::F32; N]; 2] {
        let [lower, upper] = products(simd, states, Codebook::Mcg);
        [
            sums(simd, lower_halves(simd, lower), lower_halves(simd, upper)),
            sums(simd, upper_halves(simd, lower), upper_halves(simd, upper)),
        ]
    }
}

impl Values for ThreeInst {
    #[inline(always)]
    fn integers<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [S::U32; N] {
        rounded(simd, ThreeInst::floats(simd, states))
    }

    /// The addend would carry from the lower half of a product into the upper one, so that each state is
    /// hashed in 32 bits.
    #[inline(always)]
    fn floats<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [[S::F32; N]; 2] {
        let [lower, upper] = apart(simd, states);
        [three_inst(simd, lower), three_inst(simd, upper)]
    }
}

/// The weights of states in lanes of their own.
#[inline(always)]
fn three_inst<S: Simd, const N: usize>(simd: S, states: [S::U32; N]) -> [S::F32; N] {
    let factor = simd.splat_u32(Codebook::ThreeInst.multiplier());
    let addend = simd.splat_u32(Codebook::ThreeInst.addend());
    let zero = simd.splat_u32(0);
    let product = each(
        zero,
        states,
        #[inline(always)]
        |s| simd.wrapping_mul(s, factor),
    );
    let hash = each(
        zero,
        product,
        #[inline(always)]
        |a| simd.wrapping_add(a, addend),
    );
    sums(simd, lower_halves(simd, hash), upper_halves(simd, hash))
}

#[inline(always)]
fn sums<S: Simd, const N: usize>(simd: S, a: [S::F32; N], b: [S::F32; N]) -> [S::F32; N] {
    both(
        a,
        b,
        #[inline(always)]
        |a, b| simd.add(a, b),
    )
}

/// The weights in multiples of 2^-10, to nearest even.
///
/// Added to 12288, whose last bit is worth 2^-10, they are in its last bits.
#[inline(always)]
fn rounded<S: Simd, const N: usize>(simd: S, [lower, upper]: [[S::F32; N]; 2]) -> [S::U32; N] {
    let (zero, magic, half) = (simd.splat_u32(0), simd.splat(12288.0), simd.splat_u32(16));
    let lower = each(
        zero,
        lower,
        #[inline(always)]
        |weight| simd.f32_as_bits(simd.add(weight, magic)),
    );
    let upper = each(
        zero,
        upper,
        #[inline(always)]
        |weight| simd.f32_as_bits(simd.add(weight, magic)),
    );
    let upper = each(
        zero,
        upper,
        #[inline(always)]
        |a| simd.shl(a, half),
    );
    both(
        lower,
        upper,
        #[inline(always)]
        |a, b| simd.lower_and_upper(a, b),
    )
}

/// Sign, two exponent bits and mantissa of [`codebook::HALVES_MASK`], moved to their places in an `f32`.
const MASK: u32 = 0x81FF_E000;

/// The flipped bits moved likewise; the exponent of `f32` is that of a half plus 112.
const FLIP: u32 = ((codebook::HALVES_FLIP & 0xFFFF) << 13) + (112 << 23);

/// The numbers that the masked and flipped upper halves of hashes are.
///
/// Their exponents are 12 to 15, so that no conversion is needed: shifted right by 3 they have sign, exponent
/// and mantissa where an `f32` has them, and the exponent's bias is set right by what is flipped.
#[inline(always)]
fn upper_halves<S: Simd, const N: usize>(simd: S, hashes: [S::U32; N]) -> [S::F32; N] {
    let zero = simd.splat_u32(0);
    unmask(
        simd,
        each(
            zero,
            hashes,
            #[inline(always)]
            |a| simd.shr_3_signed(a),
        ),
    )
}

/// The numbers that the masked and flipped lower halves of hashes are: 2^13 times a half has the same places.
#[inline(always)]
fn lower_halves<S: Simd, const N: usize>(simd: S, hashes: [S::U32; N]) -> [S::F32; N] {
    let (zero, shift) = (simd.splat_u32(0), simd.splat_u32(1 << 13));
    unmask(
        simd,
        each(
            zero,
            hashes,
            #[inline(always)]
            |a| simd.dot_16(zero, a, shift),
        ),
    )
}

#[inline(always)]
fn unmask<S: Simd, const N: usize>(simd: S, moved: [S::U32; N]) -> [S::F32; N] {
    let (mask, flip) = (simd.splat_u32(MASK), simd.splat_u32(FLIP));
    let masked = each(
        mask,
        moved,
        #[inline(always)]
        |a| simd.and(a, mask),
    );
    each(
        simd.splat(0.0),
        masked,
        #[inline(always)]
        |a| simd.bits_as_f32(simd.xor(a, flip)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{LANES, levels};

    /// Gives `each` every state with its weights: as an integer and as an `f32`.
    fn all<S: Simd, V: Values>(simd: S, mut each: impl FnMut(u16, i16, f32)) {
        for first in (0..=u16::MAX).step_by(2 * LANES) {
            let (mut integers, mut floats) = ([0.0; LANES], [[0.0; LANES]; 2]);
            simd.vectorize(
                #[inline(always)]
                || {
                    let lane = |lane: usize| u32::from(first) + 2 * lane as u32;
                    let states = std::array::from_fn(|at| lane(at) | (lane(at) + 1) << 16);
                    let states = [simd.load_u32(&states)];
                    simd.store(simd.bits_as_f32(V::integers(simd, states)[0]), &mut integers);
                    let [lower, upper] = V::floats(simd, states);
                    simd.store(lower[0], &mut floats[0]);
                    simd.store(upper[0], &mut floats[1]);
                },
            );
            for lane in 0..LANES {
                let both = integers[lane].to_bits();
                let state = first + 2 * lane as u16;
                each(state, both as i16, floats[0][lane]);
                each(state + 1, (both >> 16) as i16, floats[1][lane]);
            }
        }
    }

    #[test]
    fn all_states_are_worth_what_the_codec_says_before_its_rounding() {
        fn check<S: Simd, V: Values>(simd: S, codebook: Codebook) {
            let scale = Scale::of(codebook);
            let mut largest = 0;
            all::<S, V>(simd, |state, integer, float| {
                let want = codebook.value(state).to_f64();
                // Half of a half's last place, which is 2^-11 of its power of two.
                let rounding = want.abs().max(2_f64.powi(-14)).log2().floor().exp2() / 2048.0;
                let error = (f64::from(float) - want).abs();
                assert!(error <= rounding * 1.001, "{codebook} {state}: {float}, {want}");
                let weight = scale.unit * (f64::from(integer) - scale.centre);
                let spacing = if codebook == Codebook::Mul1 { 0.0 } else { scale.unit / 2.0 };
                let error = (weight - want).abs();
                assert!(error <= (rounding + spacing) * 1.001, "{codebook} {state}: {weight}, {want}");
                largest = largest.max(i64::from(integer).abs());
            });
            assert!(64 * largest * scale.largest as i64 <= i64::from(i32::MAX), "{codebook}: {largest}");
        }
        levels!(|simd| {
            check::<_, ThreeInst>(simd, Codebook::ThreeInst);
            check::<_, Mcg>(simd, Codebook::Mcg);
            check::<_, Mul1>(simd, Codebook::Mul1);
        });
    }
}
