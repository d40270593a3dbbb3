//! Matrices that several tasks write at once, each its own block.

use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

use crate::pool::Pool;

/// Matrices that one phase can write.
const MOST_MATRICES: usize = 8;

/// Numbers of a task that does little with each. A phase that has no more of them in all is over before
/// another thread has taken a part of it.
pub(crate) const LIGHT: usize = 16_384;

/// How the rows of a matrix are divided among tasks.
#[derive(Clone, Copy)]
pub(crate) enum Cut<'a> {
    /// So many rows each, the last block perhaps fewer.
    Every(usize),
    /// Block i has the rows from number i to number i + 1 of an ascending list.
    At(&'a [usize]),
}

impl Cut<'_> {
    fn blocks(self, rows: usize) -> usize {
        match self {
            Cut::Every(len) => rows.div_ceil(len),
            Cut::At(bounds) => bounds.len().saturating_sub(1),
        }
    }

    fn rows(self, block: usize, rows: usize) -> Range<usize> {
        match self {
            Cut::Every(len) => block * len..((block + 1) * len).min(rows),
            Cut::At(bounds) => bounds[block]..bounds[block + 1],
        }
    }
}

/// The columns of a row-major matrix.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    count: usize,
    /// Numbers from one row to the next.
    stride: usize,
    /// Columns of a block.
    width: usize,
}

impl Columns {
    /// Rows of `count` numbers without gaps, in blocks of `width` columns.
    pub(crate) fn dense(count: usize, width: usize) -> Columns {
        Columns { count, stride: count, width }
    }

    /// Rows of `count` numbers [`spaced`] apart, in blocks of `width` columns.
    pub(crate) fn spaced(count: usize, width: usize) -> Columns {
        Columns { count, stride: spaced(count), width }
    }
}

/// How far apart rows of `count` numbers are when the same columns of many of them are read together: a cache
/// line more than a power of two, which would put them all into one set of the cache.
pub(crate) const fn spaced(count: usize) -> usize {
    count + 16
}

#[derive(Clone, Copy)]
struct Matrix<'a> {
    first: *mut f32,
    rows: usize,
    columns: Columns,
    cut: Cut<'a>,
    row_blocks: usize,
}

impl Matrix<'_> {
    fn blocks(&self) -> usize {
        self.row_blocks * self.columns.count.div_ceil(self.columns.width)
    }
}

/// Up to eight row-major matrices, each cut into blocks.
#[derive(Default)]
pub(crate) struct Blocks<'a> {
    matrices: [Option<Matrix<'a>>; MOST_MATRICES],
    count: usize,
    light: bool,
    memory: PhantomData<&'a mut [f32]>,
}

// SAFETY: the pointers are to memory borrowed mutably for 'a, and each block of it is given out once.
unsafe impl Sync for Blocks<'_> {}

impl<'a> Blocks<'a> {
    /// Adds a matrix, in blocks of columns and rows as `columns` and `cut` say.
    ///
    /// # Panics
    /// If there are eight already, the bounds of the cut descend or leave the matrix, or a size is 0.
    pub(crate) fn push(&mut self, matrix: &'a mut [f32], columns: Columns, cut: Cut<'a>) {
        let rows = matrix.len() / columns.stride;
        match cut {
            Cut::Every(len) => assert!(len > 0, "a block has rows"),
            Cut::At(bounds) => {
                assert!(
                    bounds.is_sorted() && bounds.last().is_none_or(|last| *last <= rows),
                    "bounds of rows"
                );
            }
        }
        assert!(columns.width > 0 && columns.count <= columns.stride, "a block has columns");
        let row_blocks = cut.blocks(rows);
        self.matrices[self.count] =
            Some(Matrix { first: matrix.as_mut_ptr(), rows, columns, cut, row_blocks });
        self.count += 1;
    }

    /// One matrix, cut.
    pub(crate) fn of(matrix: &'a mut [f32], columns: Columns, cut: Cut<'a>) -> Blocks<'a> {
        let mut blocks = Blocks::default();
        blocks.push(matrix, columns, cut);
        blocks
    }

    /// The same blocks, for work that does little with each number: it stays on the calling thread if there
    /// are few of them.
    pub(crate) fn light(self) -> Blocks<'a> {
        Blocks { light: true, ..self }
    }

    fn len(&self) -> usize {
        self.matrices.iter().flatten().map(Matrix::blocks).sum()
    }

    /// How many blocks a thread takes at a time.
    fn at_a_time(&self) -> usize {
        let numbers = self.matrices.iter().flatten().map(|matrix| matrix.rows * matrix.columns.count);
        if self.light && numbers.sum::<usize>() <= LIGHT { self.len().max(1) } else { 1 }
    }

    /// Block `index` of all, rows first.
    ///
    /// # Safety
    /// No index may be asked for again while a block of it is alive.
    unsafe fn get(&self, mut index: usize) -> Block<'_> {
        for (matrix, cut) in self.matrices.iter().flatten().enumerate() {
            if index >= cut.blocks() {
                index -= cut.blocks();
                continue;
            }
            let Columns { count, stride, width } = cut.columns;
            let (part, column) = (index % cut.row_blocks, index / cut.row_blocks * width);
            let rows = cut.cut.rows(part, cut.rows);
            let cols = column..(column + width).min(count);
            // A block without rows may begin past the end of its matrix; nobody looks at it.
            let first = cut.first.wrapping_add(rows.start * stride + cols.start);
            return Block { matrix, part, rows, cols, first, stride, memory: PhantomData };
        }
        panic!("no such block");
    }
}

/// One task's part of a matrix.
pub(crate) struct Block<'a> {
    /// Which matrix, in the order of [`Blocks::push`].
    pub(crate) matrix: usize,
    /// Which part of its cut.
    pub(crate) part: usize,
    /// The matrix's rows that it has.
    pub(crate) rows: Range<usize>,
    /// The matrix's columns that it has.
    pub(crate) cols: Range<usize>,
    first: *mut f32,
    stride: usize,
    memory: PhantomData<&'a mut [f32]>,
}

impl Block<'_> {
    /// Row `row` of the block (0 is its first), its columns only.
    ///
    /// # Panics
    /// If the block has fewer rows.
    pub(crate) fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows.len(), "row {row} of a block of {}", self.rows.len());
        // SAFETY: rows and columns lie inside the matrix, blocks of one matrix are disjoint, and `&mut self`
        // keeps the rows of this one apart in time.
        unsafe { slice::from_raw_parts_mut(self.first.add(row * self.stride), self.cols.len()) }
    }
}

/// Runs `work` once for each block, with scratch memory of the thread it runs on: an equal share of
/// `scratch`, whose contents are left over from earlier tasks.
pub(crate) fn for_each_block<F>(pool: &mut Pool, blocks: Blocks<'_>, scratch: &mut [f32], work: F)
where
    F: Fn(Block<'_>, &mut [f32]) + Sync,
{
    struct Shares(*mut f32);
    // SAFETY: each thread uses a share of its own.
    unsafe impl Sync for Shares {}
    impl Shares {
        fn first(&self) -> *mut f32 {
            self.0
        }
    }

    // Shares begin at a cache line, as the scratch memory does.
    let share = scratch.len() / pool.threads() / 16 * 16;
    let shares = Shares(scratch.as_mut_ptr());
    let (len, at_a_time) = (blocks.len(), blocks.at_a_time());
    pool.run(len.div_ceil(at_a_time), &|task, thread| {
        // SAFETY: thread indices are below the number of threads, so that the share lies inside `scratch`,
        // which is borrowed for this call, and calls with one index do not overlap in time.
        let share = unsafe { slice::from_raw_parts_mut(shares.first().add(thread * share), share) };
        for index in task * at_a_time..len.min((task + 1) * at_a_time) {
            // SAFETY: the pool gives each task once, and tasks have different blocks.
            let block = unsafe { blocks.get(index) };
            work(block, share);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    #[test]
    fn blocks_cover_every_number_of_every_matrix_once() {
        for threads in [1, 3] {
            let mut pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
            let (mut a, mut b) = (vec![0.0; 7 * 10], vec![0.0; 6 * 4]);
            let mut blocks = Blocks::default();
            blocks.push(&mut a, Columns::dense(10, 4), Cut::Every(3));
            blocks.push(&mut b, Columns::dense(4, 4), Cut::At(&[0, 0, 2, 5]));
            let mut scratch = vec![0.0; 16 * threads];
            for_each_block(&mut pool, blocks, &mut scratch, |mut block, scratch| {
                assert_eq!(scratch.len(), 16);
                for row in 0..block.rows.len() {
                    let at = (block.rows.start + row) as f32;
                    let first = block.cols.start;
                    for (col, number) in block.row(row).iter_mut().enumerate() {
                        *number += 1.0 + at * 100.0 + (first + col) as f32;
                    }
                }
            });
            for (at, number) in a.iter().enumerate() {
                assert_eq!(*number, (1 + at / 10 * 100 + at % 10) as f32);
            }
            // The cut of the second matrix ends before its last row.
            for (at, number) in b.iter().enumerate() {
                assert_eq!(*number, if at < 20 { (1 + at / 4 * 100 + at % 4) as f32 } else { 0.0 });
            }
        }
    }

    #[test]
    fn a_part_says_which_entry_of_the_cut_it_is() {
        let mut pool = Pool::new(NonZero::new(1).unwrap()).unwrap();
        let mut a = vec![0.0; 5];
        let blocks = Blocks::of(&mut a, Columns::dense(1, 1), Cut::At(&[0, 2, 2, 5]));
        for_each_block(&mut pool, blocks, &mut [], |mut block, _| {
            for row in 0..block.rows.len() {
                block.row(row)[0] = block.part as f32;
            }
        });
        assert_eq!(a, [0.0, 0.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn numbers_between_spaced_rows_are_left_alone() {
        let mut pool = Pool::new(NonZero::new(2).unwrap()).unwrap();
        let mut a = vec![0.0; 3 * spaced(5)];
        let blocks = Blocks::of(&mut a, Columns::spaced(5, 2), Cut::Every(1));
        for_each_block(&mut pool, blocks, &mut [], |mut block, _| block.row(0).fill(1.0));
        for row in a.chunks_exact(spaced(5)) {
            assert_eq!(row[..5], [1.0; 5]);
            assert_eq!(row[5..], [0.0; 16]);
        }
    }

    #[test]
    #[should_panic(expected = "bounds of rows")]
    fn bounds_outside_the_matrix_are_refused() {
        let mut a = vec![0.0; 5];
        Blocks::of(&mut a, Columns::dense(1, 1), Cut::At(&[0, 6]));
    }
}
