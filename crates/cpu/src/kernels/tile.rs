//! Tiles of codes to pairs of states.
//!
//! A tile is read in four *quarters* of 64 weights, in the order of the file: lane i of a vector is the lane
//! 8 quarter + i of the warp that the format was made for (see [`exl3::tile`]), with its eight states. They
//! come as four vectors of two states a lane, [`PAIRS`]:
//!
//! ```text
//! pair   lower 16 bits   upper 16 bits   input rows        output column
//! 0      state 7         state 6         2 q + 9, 2 q + 8  n + 8
//! 1      state 5         state 4         2 q + 1, 2 q      n + 8
//! 2      state 3         state 2         2 q + 9, 2 q + 8  n
//! 3      state 1         state 0         2 q + 1, 2 q      n        q = i mod 4, n = 2 quarter + i / 4
//! ```
//!
//! Both states of a pair end within a *window* of 32 bits of the ring that ends at a byte, and neighbours
//! share most of their bits: the lower is the window shifted right by less than 16, the upper the window
//! shifted left by less than 16, and a blend takes half of each. Where windows lie and how far they are
//! shifted is worked out when the kernel is compiled, see [`Plan`]. What they cost differs:
//!
//! | bits | loads of 16 bytes | windows |
//! |---|---|---|
//! | up to 3 | two, for the lower and the upper four lanes | each a shuffle of bytes |
//! | 4 | none: a window is a word, or the upper half of a word beside the lower half of the one before | |
//! | 3.5, 5 to 8 | two for every two lanes | each a shuffle and a merge |
//!
//! The ring of a tile has no beginning: the word before its first one is its last one.

use exl3::Bits;
use exl3::trellis::ring_end;

use crate::simd::{HALF, LANES, Simd};

/// Vectors of two states a lane in a quarter.
pub(crate) const PAIRS: usize = 4;

/// Quarters of a tile.
pub(crate) const QUARTERS: usize = 4;

/// Bytes before a tile that are read with it, and thrown away.
pub(crate) const BEFORE: usize = 4;

/// A byte of a shuffle that becomes 0.
const NOTHING: u8 = 0x80;

/// The width that a kernel is compiled for, given in half bits.
pub(crate) const fn width(half_bits: u8) -> Bits {
    match Bits::from_half_bits(half_bits) {
        Some(bits) => bits,
        None => panic!("no such width"),
    }
}

/// Where the windows of a quarter come from, for tiles of one width.
struct Plan {
    /// For each window the first bytes of the loads, counted from the beginning of the tile: for a half of
    /// a vector, for its lower and its upper two lanes (the same if one load is enough for four).
    loads: [[[isize; 2]; 2]; PAIRS],
    /// For each window the byte of the load that each byte of a lane is.
    shuffles: [[u8; 2 * HALF]; PAIRS],
    /// Which window a pair is read from.
    window: [usize; PAIRS],
    /// How far it is shifted right for the lower state.
    right: [[u32; LANES]; PAIRS],
    /// How far it is shifted left for the upper state.
    left: [[u32; LANES]; PAIRS],
    /// Whether the window is the pair as it is.
    whole: bool,
}

/// The byte of a tile, which has little-endian words, that holds byte `byte` of its ring.
const fn place(byte: isize) -> isize {
    byte.div_euclid(4) * 4 + 3 - byte.rem_euclid(4)
}

impl Plan {
    const fn new(half_bits: u8, quarter: usize) -> Plan {
        let bits = width(half_bits);
        let mut plan = Plan {
            loads: [[[0; 2]; 2]; PAIRS],
            shuffles: [[NOTHING; 2 * HALF]; PAIRS],
            window: [0; PAIRS],
            right: [[0; LANES]; PAIRS],
            left: [[0; LANES]; PAIRS],
            whole: bits.half_bits() == 16,
        };
        let mut first_user = 0;
        let mut pair = 0;
        while pair < PAIRS {
            let mut lane = 0;
            while lane < LANES {
                if window_end(bits, quarter, lane, first_user) - end(bits, quarter, lane, pair, 1) > 16 {
                    first_user = pair;
                }
                lane += 1;
            }
            plan.window[pair] = first_user;
            lane = 0;
            while lane < LANES {
                let last = window_end(bits, quarter, lane, first_user);
                plan.right[pair][lane] = (last - end(bits, quarter, lane, pair, 0)) as u32;
                plan.left[pair][lane] = 16 - (last - end(bits, quarter, lane, pair, 1)) as u32;
                lane += 1;
            }
            pair += 1;
        }
        pair = 0;
        while pair < PAIRS {
            plan.find_loads(bits, quarter, pair);
            plan.find_bytes(bits, quarter, pair);
            pair += 1;
        }
        plan
    }

    /// Loads of 16 bytes that hold the window of `pair` in their lanes, and if possible those of all pairs.
    const fn find_loads(&mut self, bits: Bits, quarter: usize, pair: usize) {
        let mut load = 0;
        while load < 4 {
            let (half, part) = (load / 2, load % 2);
            let lanes = if one_load(bits) { 4 } else { 2 };
            let first_lane = if one_load(bits) { 4 * half } else { 4 * half + 2 * part };
            let (first, last) = used_bytes(bits, quarter, (first_lane, lanes), (0, PAIRS));
            let (first, last) = if last - first <= HALF as isize {
                (first, last)
            } else {
                used_bytes(bits, quarter, (first_lane, lanes), (pair / 2 * 2, 2))
            };
            let latest = bits.tile_bytes() as isize - HALF as isize;
            let first = if first < latest { first } else { latest };
            assert!(first >= -(BEFORE as isize) && last - first <= HALF as isize, "a load is too short");
            self.loads[pair][half][part] = first;
            load += 1;
        }
    }

    const fn find_bytes(&mut self, bits: Bits, quarter: usize, pair: usize) {
        let mut lane = 0;
        while lane < LANES {
            let (half, part) = (lane / 4, lane % 4 / 2);
            let load = self.loads[pair][half][part];
            let mut byte = 0;
            while byte < 4 {
                let back = if self.whole { [1, 2, 2, 3][byte] } else { byte as isize + 1 };
                let ring = window_end(bits, quarter, lane, self.window[pair]) as isize / 8 - back;
                let at = place(ring) - load;
                // Of two loads, two windows are made at once: first the two lanes of one, then of the other.
                let to = if one_load(bits) { lane % 4 } else { pair % 2 * 2 + lane % 2 };
                let table = if one_load(bits) { pair } else { pair / 2 * 2 + part };
                if 0 <= at && at < HALF as isize {
                    self.shuffles[table][HALF * half + 4 * to + byte] = at as u8;
                }
                byte += 1;
            }
            lane += 1;
        }
    }
}

/// Whether 16 bytes hold all that four lanes need.
const fn one_load(bits: Bits) -> bool {
    bits.half_bits() <= 6
}

/// The ring bit just past the lower (0) or upper (1) state of a pair.
const fn end(bits: Bits, quarter: usize, lane: usize, pair: usize, upper: usize) -> usize {
    ring_end(bits, 8 * (LANES * quarter + lane) + 7 - 2 * pair - upper)
}

/// The ring bit just past the window of a pair: the end of a byte.
const fn window_end(bits: Bits, quarter: usize, lane: usize, pair: usize) -> usize {
    end(bits, quarter, lane, pair, 0).next_multiple_of(8)
}

/// The bytes of a tile, whole words, that hold the states of some pairs in some lanes: the first, and the one
/// past the last. A range is its beginning and its length.
const fn used_bytes(
    bits: Bits,
    quarter: usize,
    lanes: (usize, usize),
    pairs: (usize, usize),
) -> (isize, isize) {
    let (mut first, mut last) = (isize::MAX, isize::MIN);
    let mut lane = lanes.0;
    while lane < lanes.0 + lanes.1 {
        let mut pair = pairs.0;
        while pair < pairs.0 + pairs.1 {
            let begin = (end(bits, quarter, lane, pair, 1) as isize - 16).div_euclid(32) * 4;
            let past = end(bits, quarter, lane, pair, 0).div_ceil(32) as isize * 4;
            first = if begin < first { begin } else { first };
            last = if past > last { past } else { last };
            pair += 1;
        }
        lane += 1;
    }
    (first, last)
}

/// The plans of the quarters of tiles with `HALF_BITS` half bits a weight.
struct Plans<const HALF_BITS: u8>;

impl<const HALF_BITS: u8> Plans<HALF_BITS> {
    const QUARTERS: [Plan; QUARTERS] =
        [Plan::new(HALF_BITS, 0), Plan::new(HALF_BITS, 1), Plan::new(HALF_BITS, 2), Plan::new(HALF_BITS, 3)];
}

/// The states of quarter `QUARTER` of a tile with `HALF_BITS` half bits a weight. `tile` has the [`BEFORE`]
/// bytes before it as well.
///
/// # Panics
/// If `tile` is shorter.
#[inline(always)]
pub(crate) fn states<S: Simd, const HALF_BITS: u8, const QUARTER: usize>(
    simd: S,
    tile: &[u8],
) -> [S::U32; PAIRS] {
    let plan = const { &Plans::<HALF_BITS>::QUARTERS[QUARTER] };
    let windows = if HALF_BITS == 8 {
        words::<S, QUARTER>(simd, tile)
    } else if const { one_load(width(HALF_BITS)) } {
        shuffled::<S, HALF_BITS, QUARTER>(simd, tile)
    } else {
        merged::<S, HALF_BITS, QUARTER>(simd, tile)
    };
    if plan.whole {
        return windows;
    }
    let mut states = windows;
    for (pair, states) in states.iter_mut().enumerate() {
        let window = windows[plan.window[pair]];
        let lower = simd.shr(window, simd.load_u32(&plan.right[pair]));
        *states = simd.lower_and_upper(lower, simd.shl(window, simd.load_u32(&plan.left[pair])));
    }
    states
}

/// The bytes at `at` of a tile, counted from its beginning.
#[inline(always)]
fn bytes<const COUNT: usize>(tile: &[u8], at: isize) -> &[u8; COUNT] {
    tile[at.wrapping_add_unsigned(BEFORE).cast_unsigned()..].first_chunk().expect("a tile is long enough")
}

/// The last word of a tile.
#[inline(always)]
fn last_word(tile: &[u8]) -> u32 {
    u32::from_le_bytes(*tile.last_chunk().expect("a tile has words"))
}

/// Two loads; the word before the tile is its last one.
#[inline(always)]
fn load<S: Simd, const QUARTER: usize>(simd: S, tile: &[u8], at: [isize; 2]) -> S::U32 {
    let loaded = simd.load_halves(bytes(tile, at[0]), bytes(tile, at[1]));
    if QUARTER == 0 && at[0] < 0 { simd.with_first(loaded, last_word(tile)) } else { loaded }
}

/// Windows of tiles of 4 bits a weight.
#[inline(always)]
fn words<S: Simd, const QUARTER: usize>(simd: S, tile: &[u8]) -> [S::U32; PAIRS] {
    let low = simd.load_words(bytes(tile, (4 * LANES * QUARTER) as isize));
    let before = simd.load_words(bytes(tile, (4 * LANES * QUARTER) as isize - 4));
    let before = if QUARTER == 0 { simd.with_first(before, last_word(tile)) } else { before };
    const EXCHANGE: [u8; 2 * HALF] = {
        let mut places = [0; 2 * HALF];
        let mut byte = 0;
        while byte < 2 * HALF {
            places[byte] = ((byte % HALF) ^ 2) as u8;
            byte += 1;
        }
        places
    };
    let between = simd.shuffle_bytes(simd.lower_and_upper(before, low), &EXCHANGE);
    [low, low, between, between]
}

/// Windows of tiles with few bits: shuffles of one vector.
#[inline(always)]
fn shuffled<S: Simd, const HALF_BITS: u8, const QUARTER: usize>(simd: S, tile: &[u8]) -> [S::U32; PAIRS] {
    let plan = const { &Plans::<HALF_BITS>::QUARTERS[QUARTER] };
    let loaded = load::<S, QUARTER>(simd, tile, [plan.loads[0][0][0], plan.loads[0][1][0]]);
    let mut windows = [loaded; PAIRS];
    for (window, shuffle) in windows.iter_mut().zip(&plan.shuffles) {
        *window = simd.shuffle_bytes(loaded, shuffle);
    }
    windows
}

/// Windows of tiles with many bits: shuffles of two vectors give two windows of two lanes each.
#[inline(always)]
fn merged<S: Simd, const HALF_BITS: u8, const QUARTER: usize>(simd: S, tile: &[u8]) -> [S::U32; PAIRS] {
    let plan = const { &Plans::<HALF_BITS>::QUARTERS[QUARTER] };
    let mut windows = [simd.splat_u32(0); PAIRS];
    for first in [0, 2] {
        let [low, high] = plan.loads[first];
        let a = simd.shuffle_bytes(load::<S, QUARTER>(simd, tile, [low[0], high[0]]), &plan.shuffles[first]);
        let b = load::<S, QUARTER>(simd, tile, [low[1], high[1]]);
        let b = simd.shuffle_bytes(b, &plan.shuffles[first + 1]);
        windows[first] = simd.lower_pairs(a, b);
        windows[first + 1] = simd.upper_pairs(a, b);
    }
    windows
}

/// Runs an expression with a width as a constant, in half bits, that kernels can be compiled for.
macro_rules! with_width {
    ($bits:expr, |$width:ident| $work:expr) => {
        crate::kernels::tile::with_width!(@ $bits, $width, $work; 2 3 4 5 6 7 8 10 12 14 16)
    };
    (whole $bits:expr, |$width:ident| $work:expr) => {
        crate::kernels::tile::with_width!(@ $bits, $width, $work; 2 4 6 8 10 12 14 16)
    };
    (@ $bits:expr, $width:ident, $work:expr; $($value:literal)*) => {
        match $bits.half_bits() {
            $($value => {
                const $width: u8 = $value;
                $work
            })*
            half_bits => unreachable!("{half_bits} half bits, which the codebook does not have"),
        }
    };
}
pub(crate) use with_width;

#[cfg(test)]
mod tests {
    use exl3::tile::WEIGHTS;
    use exl3::trellis;
    use proptest::prelude::*;

    use super::*;
    use crate::simd::levels;

    fn check<S: Simd, const HALF_BITS: u8>(simd: S, bytes: &[u8]) -> Result<(), TestCaseError> {
        let bits = width(HALF_BITS);
        let tile = &bytes[..BEFORE + bits.tile_bytes()];
        let mut want = [0; WEIGHTS];
        trellis::unpack(&tile[BEFORE..], bits, &mut want);
        let quarters = [
            states::<S, HALF_BITS, 0>(simd, tile),
            states::<S, HALF_BITS, 1>(simd, tile),
            states::<S, HALF_BITS, 2>(simd, tile),
            states::<S, HALF_BITS, 3>(simd, tile),
        ];
        for (quarter, pairs) in quarters.into_iter().enumerate() {
            for (pair, states) in pairs.into_iter().enumerate() {
                let mut lanes = [0.0; LANES];
                simd.store(simd.bits_as_f32(states), &mut lanes);
                for (lane, states) in lanes.map(f32::to_bits).into_iter().enumerate() {
                    let first = 8 * (LANES * quarter + lane);
                    let found = [states as u16, (states >> 16) as u16];
                    let needed = [want[first + 7 - 2 * pair], want[first + 6 - 2 * pair]];
                    prop_assert_eq!(found, needed, "{} bits, lane {}, pair {}", bits, first / 8, pair);
                }
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn states_of_every_width_are_those_of_the_codec(bytes in prop::collection::vec(any::<u8>(), 260)) {
            for bits in Bits::ALL {
                levels!(|simd| with_width!(bits, |HALF_BITS| check::<_, HALF_BITS>(simd, &bytes))?);
            }
        }
    }
}
