// cache_write: the row of each token, rounded to f16, goes to its place in the cache: cache[place(r)] = x[r].
//
// Layout: a thread a column, blocks of 256 columns: grid (rows, columns / 256). Traffic: x once, half of it out.

struct Params {
    const float* x;
    u16* cache;           // rows of `cols` halves, page after page
    const u32* count;
    const u32* places;    // row of the cache of each token
    u32 x_stride;
    u32 cols;
};

extern "C" __global__ void cache_write(const Params p) {
    begin();
    const u32 row = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x;
    if (row >= *p.count || column >= p.cols) return;
    p.cache[(u64)p.places[row] * p.cols + column] = float_to_half(p.x[(u64)row * p.x_stride + column]);
}
