//! Rotary position embedding: with `a = position * inverse_frequencies[i]`, `(u, v)` becomes
//! `gain * (u cos a - v sin a, v cos a + u sin a)`; other dims are copied.
//!
//! A task has some rows, about 16,384 numbers; cosines and sines of a row are computed once for all its heads.
//! Traffic: 8 bytes a number.

use program::{Heads, Pairing, Rope};

use super::add::light_rows;
use super::{Rows, Work};
use crate::arena::{Blocks, Columns, for_each_block};
use crate::pool::Pool;
use crate::simd::Simd;

/// The work space of [`rope`].
pub(crate) fn work(heads: Heads) -> Work {
    Work { shared: 0, thread: heads.rotary as usize }
}

/// Rotates each head of each row of x.
pub(crate) fn rope<S: Simd>(
    simd: S,
    pool: &mut Pool,
    (x, positions): (Rows<'_>, &[u32]),
    (heads, rope): (Heads, &Rope),
    (out, scratch): (&mut [f32], &mut [f32]),
) {
    let dims = heads.dims as usize;
    let blocks = Blocks::of(out, Columns::dense(x.cols(), x.cols()), light_rows(x.cols()));
    for_each_block(pool, blocks, scratch, |mut block, scratch| {
        let pairs = rope.inverse_frequencies.len();
        let (cosines, sines) = scratch[..2 * pairs].split_at_mut(pairs);
        simd.vectorize(
            #[inline(always)]
            || {
                for row in 0..block.rows.len() {
                    let at = block.rows.start + row;
                    let turns = cosines.iter_mut().zip(&mut *sines).zip(&*rope.inverse_frequencies);
                    for ((cosine, sine), frequency) in turns {
                        let (sin, cos) = (positions[at] as f32 * frequency).sin_cos();
                        (*cosine, *sine) = (cos * rope.gain, sin * rope.gain);
                    }
                    let x = x.row(at).chunks_exact(dims);
                    for (x, out) in x.zip(block.row(row).chunks_exact_mut(dims)) {
                        out.copy_from_slice(x);
                        let out = &mut out[heads.first as usize..][..2 * pairs];
                        rotate(rope.pairing, out, cosines, sines);
                    }
                }
            },
        );
    });
}

#[inline(always)]
fn rotate(pairing: Pairing, rotary: &mut [f32], cosines: &[f32], sines: &[f32]) {
    match pairing {
        Pairing::Interleaved => {
            for ((pair, cosine), sine) in rotary.as_chunks_mut::<2>().0.iter_mut().zip(cosines).zip(sines) {
                let [u, v] = *pair;
                *pair = [u * cosine - v * sine, v * cosine + u * sine];
            }
        }
        Pairing::HalfSplit => {
            let (first, second) = rotary.split_at_mut(cosines.len());
            for (((u, v), cosine), sine) in first.iter_mut().zip(second).zip(cosines).zip(sines) {
                (*u, *v) = (*u * cosine - *v * sine, *v * cosine + *u * sine);
            }
        }
    }
}
