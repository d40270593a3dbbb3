//! Vector instructions behind tokens.
//!
//! A value of a type that implements [`Simd`] proves that the processor has the instructions its methods
//! use, so that kernels are written once, over `S: Simd`, in safe code. All levels have vectors of
//! [`LANES`] numbers and add their lanes in the same order ([`Simd::sums`]); levels differ in the bits of
//! a result only where one fuses a multiplication with an addition.
//!
//! A kernel is an `#[inline(always)]` function called inside [`Simd::vectorize`], which is compiled with
//! the level's instructions switched on.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod math;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod scalar;
#[cfg(test)]
mod twins;
mod words;

use std::fmt;

pub(crate) use words::{HALF, Words};

/// Numbers in a vector.
pub(crate) const LANES: usize = 8;

/// A set of vector instructions that the processor is known to have.
pub(crate) trait Simd: Words + Send + Sync + 'static {
    /// Whether there are no vectors behind it, so that kernels with a plain twin take that.
    const PLAIN: bool = false;

    /// Runs `work` compiled with this level's instructions.
    fn vectorize<R>(self, work: impl FnOnce() -> R) -> R;

    /// The same number in all lanes.
    fn splat(self, value: f32) -> Self::F32;
    /// Lane i is `from[i]`.
    fn load(self, from: &[f32; LANES]) -> Self::F32;
    /// `to[i]` becomes lane i.
    fn store(self, value: Self::F32, to: &mut [f32; LANES]);
    /// Lane i is `from[i mod 4]`.
    fn load_twice(self, from: &[f32; LANES / 2]) -> Self::F32;
    /// Eight little-endian `f32`.
    fn load_f32_bytes(self, from: &[u8; 4 * LANES]) -> Self::F32;
    /// Eight little-endian halves.
    fn load_f16_bytes(self, from: &[u8; 2 * LANES]) -> Self::F32;
    /// Eight little-endian upper halves of `f32`.
    fn load_bf16_bytes(self, from: &[u8; 2 * LANES]) -> Self::F32;
    /// Eight little-endian halves, rounded to nearest even.
    fn store_f16_bytes(self, value: Self::F32, to: &mut [u8; 2 * LANES]);
    /// Rounded to the nearest half, ties to even.
    fn round_to_f16(self, value: Self::F32) -> Self::F32;

    /// `a + b`.
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a - b`.
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a * b`.
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a / b`.
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a * b + c`, with one rounding where the level has such an instruction.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The larger of each pair, and `b` where one of them is NaN.
    fn max(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The smaller of each pair, and `b` where one of them is NaN.
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The nearest whole number, ties to even.
    fn round(self, a: Self::F32) -> Self::F32;
    /// `2^a` for whole numbers from -126 to 127.
    fn power_of_two(self, a: Self::F32) -> Self::F32;
    /// The lanes of each of four vectors added up, as `((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))`.
    fn sums(self, vectors: [Self::F32; 4]) -> [f32; 4];
    /// Both halves of each of four vectors added up, as `(0 + 1) + (2 + 3)`: lane 2 i is the sum of the lower
    /// half of vector i, lane 2 i + 1 that of the upper.
    fn sums_of_halves(self, vectors: [Self::F32; 4]) -> Self::F32;
    /// The largest lane.
    fn largest(self, a: Self::F32) -> f32;
    /// Pairs lane i with lane i + `stride` (1, 2 or 4; bit clear in i) and makes them their sum and difference.
    fn butterfly(self, stride: usize, a: Self::F32) -> Self::F32;

    /// Asks for the cache line in which `items` begin, which will be read soon.
    fn prefetch<T>(self, items: &[T]);
    /// Lane j of vector i becomes lane i of vector j.
    fn transpose(self, rows: [Self::F32; LANES]) -> [Self::F32; LANES] {
        let mut numbers = [[0.0; LANES]; LANES];
        for (row, numbers) in rows.into_iter().zip(&mut numbers) {
            self.store(row, numbers);
        }
        let mut columns = rows;
        for (lane, column) in columns.iter_mut().enumerate() {
            *column = self.load(&numbers.map(|row| row[lane]));
        }
        columns
    }
}

/// Which vector instructions a device uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimdLevel {
    /// Plain code for any processor.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 and VNNI as well, in vectors of 256 bits.
    Avx512,
    /// aarch64 with NEON.
    Neon,
}

impl fmt::Display for SimdLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            SimdLevel::Scalar => "scalar",
            SimdLevel::Avx2 => "avx2",
            SimdLevel::Avx512 => "avx512",
            SimdLevel::Neon => "neon",
        })
    }
}

/// A token of the level chosen when the device was made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instructions {
    /// [`SimdLevel::Scalar`].
    Scalar(scalar::Scalar),
    /// [`SimdLevel::Avx2`].
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    /// [`SimdLevel::Avx512`].
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    /// [`SimdLevel::Neon`].
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
}

impl Instructions {
    /// The token of `level`, or none if this processor lacks it.
    pub(crate) fn of(level: SimdLevel) -> Option<Instructions> {
        match level {
            SimdLevel::Scalar => Some(Instructions::Scalar(scalar::Scalar)),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => avx2::Avx2::detect().map(Instructions::Avx2),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => avx512::Avx512::detect().map(Instructions::Avx512),
            #[cfg(target_arch = "aarch64")]
            SimdLevel::Neon => neon::Neon::detect().map(Instructions::Neon),
            #[cfg(not(target_arch = "x86_64"))]
            SimdLevel::Avx2 | SimdLevel::Avx512 => None,
            #[cfg(not(target_arch = "aarch64"))]
            SimdLevel::Neon => None,
        }
    }

    /// The best level of this processor.
    pub(crate) fn best() -> Instructions {
        let by_speed = [SimdLevel::Avx512, SimdLevel::Avx2, SimdLevel::Neon];
        let best = by_speed.into_iter().find_map(Instructions::of);
        best.unwrap_or(Instructions::Scalar(scalar::Scalar))
    }

    /// Which level this is.
    pub(crate) fn level(self) -> SimdLevel {
        match self {
            Instructions::Scalar(_) => SimdLevel::Scalar,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) => SimdLevel::Avx2,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(_) => SimdLevel::Avx512,
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon(_) => SimdLevel::Neon,
        }
    }
}

/// Runs a block once for each level that this processor has, with the level's token under the name given.
#[cfg(test)]
macro_rules! levels {
    (|$simd:ident| $work:expr) => {{
        {
            let $simd = crate::simd::scalar::Scalar;
            $work
        }
        #[cfg(target_arch = "x86_64")]
        if let Some($simd) = crate::simd::avx2::Avx2::detect() {
            $work
        }
        #[cfg(target_arch = "x86_64")]
        if let Some($simd) = crate::simd::avx512::Avx512::detect() {
            $work
        }
        #[cfg(target_arch = "aarch64")]
        if let Some($simd) = crate::simd::neon::Neon::detect() {
            $work
        }
    }};
}
#[cfg(test)]
pub(crate) use levels;
