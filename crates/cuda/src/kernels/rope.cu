// rope: pair (u, v) of a head becomes gain * (u cos a - v sin a, v cos a + u sin a), a = position * frequency in f32;
// other columns are copied. INTERLEAVED: pairs are (2i, 2i + 1), otherwise (i, i + rotary / 2).
//
// Layout: a thread a column of the output, blocks of 256 columns: grid (rows, columns / 256). Traffic: x and out once.

struct Params {
    const float* x;
    float* out;
    const u32* count;
    const u32* positions;
    const float* frequencies;   // rotary / 2, radians a token
    u32 x_stride;
    u32 cols;
    u32 dims;                   // columns a head
    u32 first;                  // the first rotated dim of a head
    u32 rotary;
    float gain;
};

extern "C" __global__ void rope(const Params p) {
    begin();
    const u32 row = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x;
    if (row >= *p.count || column >= p.cols) return;
    const float* x = p.x + (u64)row * p.x_stride;
    const u32 dim = column % p.dims - p.first;  // wraps around below the first rotated dim
    float v = x[column];
    if (dim < p.rotary) {
#if INTERLEAVED
        const u32 pair = dim / 2, other = dim ^ 1;
        const bool second = dim & 1;
#else
        const u32 half = p.rotary / 2;
        const bool second = dim >= half;
        const u32 pair = second ? dim - half : dim, other = second ? dim - half : dim + half;
#endif
        const float w = x[column - dim + other];
        float sine, cosine;
        sincosf(__fmul_rn((float)p.positions[row], p.frequencies[pair]), &sine, &cosine);
        v = p.gain * (second ? v * cosine + w * sine : v * cosine - w * sine);
    }
    p.out[(u64)row * p.cols + column] = v;
}
