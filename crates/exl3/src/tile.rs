//! The order of the weights inside a tile.
//!
//! A tile holds 16 x 16 weights of a layer. Its ring stores them in *stream order*, which is the order in
//! which the 32 lanes of a GPU warp hold a 16 x 8 operand of a tensor core product, twice: 8 weights a lane,
//! the first four in columns 0 to 7 and the last four in columns 8 to 15.

/// Rows, and columns, of a tile.
pub const TILE: usize = 16;

/// Weights of a tile: 256.
pub const WEIGHTS: usize = TILE * TILE;

/// The row-major index (16 row + column) of each stream position.
pub const PERMUTATION: [u8; WEIGHTS] = {
    let mut permutation = [0; WEIGHTS];
    let mut stream = 0;
    while stream < WEIGHTS {
        let (row, column) = position(stream);
        permutation[stream] = (TILE * row + column) as u8;
        stream += 1;
    }
    permutation
};

/// The row (input feature) and column (output feature) inside the tile of a stream position below 256.
pub const fn position(stream: usize) -> (usize, usize) {
    let (lane, element) = (stream / 8, stream % 8);
    let row = 2 * (lane % 4) + element % 2 + 8 * (element / 2 % 2);
    let column = lane / 4 + 8 * (element / 4);
    (row, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_starts_and_ends_as_published() {
        assert_eq!(PERMUTATION[..12], [0, 16, 128, 144, 8, 24, 136, 152, 32, 48, 160, 176]);
        assert_eq!(PERMUTATION[252..], [111, 127, 239, 255]);
    }

    #[test]
    fn every_weight_of_the_tile_appears_once() {
        let mut sorted = PERMUTATION;
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(index, &value)| index == usize::from(value)));
    }
}
