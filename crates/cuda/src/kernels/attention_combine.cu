// attend and attend_mla, the end: the sums that splits of the context left become one,
// c = sum over splits of exp(m_s - m) sums_s / sum over splits of exp(m_s - m) weights_s, in the order of s.
// LATENT: c is a mixture of latents, and out = V c with the head's rows of the up-projection (FORMAT).
//
// Layout: grid (parts of a head's outputs, heads, rows), 256 threads: a thread a column of c (VALUE_DIMS) in turn, which
// goes to shared memory with LATENT; then a warp an output. Traffic: the live splits' sums once for each part, V once.

struct Params {
    const float* sums;
    const float* weights;
    float* out;            // rows of heads * OUT
    const void* up;        // LATENT: [heads * (skip + OUT), VALUE_DIMS]
    const u32* count;
    const u32* lengths;
    u32 heads;
    u32 splits;
    u32 tile;
    u32 skip;              // LATENT: rows of `up` of a head that belong to its keys
};

extern "C" __global__ void __launch_bounds__(256) attention_combine(const Params p) {
    begin();
#if LATENT
    __shared__ float mixed[VALUE_DIMS];
#endif
    const u32 head = blockIdx.y, row = blockIdx.z;
    if (row >= *p.count) return;
    const u32 tiles = (p.lengths[row] + p.tile - 1) / p.tile, each = (tiles + p.splits - 1) / p.splits;
    const u32 live = (tiles + each - 1) / each;
    const u64 at = ((u64)row * p.heads + head) * p.splits;
    const float* weights = p.weights + at * 2;
    const float* sums = p.sums + at * VALUE_DIMS;
    float best = -INFINITE, total = 0.0f;
    for (u32 s = 0; s < live; s++) best = fmaxf(best, weights[2 * s]);
    for (u32 s = 0; s < live; s++) total += expf(weights[2 * s] - best) * weights[2 * s + 1];
    for (u32 i = threadIdx.x; i < VALUE_DIMS; i += 256) {
        float sum = 0.0f;
        for (u32 s = 0; s < live; s++) sum += expf(weights[2 * s] - best) * sums[(u64)s * VALUE_DIMS + i];
#if LATENT
        mixed[i] = sum / total;
#else
        p.out[((u64)row * p.heads + head) * VALUE_DIMS + i] = sum / total;
#endif
    }
#if LATENT
    typedef typename Numbers<FORMAT>::Stored Stored;
    __syncthreads();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (u32 v = blockIdx.x * 32 + warp; v < min(blockIdx.x * 32 + 32, (u32)OUT); v += 8) {
        const Stored* up = (const Stored*)p.up + ((u64)head * (p.skip + OUT) + p.skip + v) * VALUE_DIMS;
        float sum = 0.0f;
        for (u32 c = lane; c < VALUE_DIMS; c += 32) sum += Numbers<FORMAT>::read(up[c]) * mixed[c];
        sum = warp_sum(sum);
        if (lane == 0) p.out[((u64)row * p.heads + head) * OUT + v] = sum;
    }
#endif
}
