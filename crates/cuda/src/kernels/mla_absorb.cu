// attend_mla, the beginning: the query of a head moves to where the latents are,
// absorbed[c] = sum over d of q[d] K[d][c], and its rotary part follows behind.
// Constants: NOPE, ROTARY, VALUE (dims of a head), RANK, FORMAT (of the up-projection).
//
// Layout: grid (columns / 64, heads, rows), 256 threads: 64 columns of the latent times 4 runs of d, added in shared
// memory. Traffic: K once a row, from the caches after the first.

struct Params {
    const float* q;        // rows of heads * (NOPE + ROTARY)
    const void* up;        // [heads * (NOPE + VALUE), RANK]
    float* absorbed;       // rows of heads * (RANK + ROTARY)
    const u32* count;
    u32 heads;
};

extern "C" __global__ void __launch_bounds__(256) mla_absorb(const Params p) {
    begin();
    typedef typename Numbers<FORMAT>::Stored Stored;
    __shared__ float partial[4][64];
    const u32 head = blockIdx.y, row = blockIdx.z, run = threadIdx.x / 64;
    const u32 column = blockIdx.x * 64 + threadIdx.x % 64;
    if (row >= *p.count) return;
    const float* q = p.q + ((u64)row * p.heads + head) * (NOPE + ROTARY);
    float* out = p.absorbed + ((u64)row * p.heads + head) * (RANK + ROTARY);
    const Stored* up = (const Stored*)p.up + (u64)head * (NOPE + VALUE) * RANK;
    float sum = 0.0f;
    if (column < RANK) {
#pragma unroll 8
        for (u32 d = run; d < NOPE; d += 4) sum += q[d] * Numbers<FORMAT>::read(up[(u64)d * RANK + column]);
    }
    partial[run][threadIdx.x % 64] = sum;
    __syncthreads();
    if (run == 0 && column < RANK) {
        const u32 i = threadIdx.x;
        out[column] = partial[0][i] + partial[1][i] + partial[2][i] + partial[3][i];
    }
    if (blockIdx.x == 0)
        for (u32 i = threadIdx.x; i < ROTARY; i += 256) out[RANK + i] = q[NOPE + i];
}
