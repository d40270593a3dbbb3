// rms_norm: out = x / sqrt(mean(x^2) + eps) * weight, over each run of `len` columns.
// add_rms_norm (ADD): the same of sum = x + delta, which is written as well.
//
// Layout: a block a run; a thread takes columns in turn, and squares are summed over the block in f32.
// Traffic: x (and delta) once or twice, the second time from the caches, and the outputs.

struct Params {
    const float* x;
    const float* delta;   // ADD
    const float* weight;
    float* sum;           // ADD
    float* out;
    const u32* count;
    u32 x_stride;
    u32 len;
    u32 runs;             // of a row
    float eps;
};

extern "C" __global__ void rms_norm(const Params p) {
    begin();
    __shared__ float work[32];
    const u32 row = blockIdx.x / p.runs, run = blockIdx.x % p.runs;
    if (row >= *p.count) return;
    const float* x = p.x + (u64)row * p.x_stride + run * p.len;
    const u64 to = (u64)row * p.runs * p.len + run * p.len;
    float squares = 0.0f;
    for (u32 i = threadIdx.x; i < p.len; i += blockDim.x) {
        float v = x[i];
#if ADD
        v += p.delta[to + i];
        p.sum[to + i] = v;
#endif
        squares += v * v;
    }
    const float mean = block_sum(squares, work) / (float)p.len;
    const float scale = 1.0f / sqrtf(mean + p.eps);
    for (u32 i = threadIdx.x; i < p.len; i += blockDim.x) {
#if ADD
        const float v = p.sum[to + i];
#else
        const float v = x[i];
#endif
        p.out[to + i] = v * scale * p.weight[i];
    }
}
