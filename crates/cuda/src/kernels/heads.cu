// rms_norm, rope and cache_write of a layer's queries, keys and values in one launch: for each head of each job,
// v = x (/ sqrt(mean(x^2) + eps) * weight), then the rotation, then to a value or, rounded to f16, to the cache.
// The formulas and their rounding are those of rms_norm.cu, rope.cu and cache_write.cu.
//
// Layout: a block of 256 threads a head: grid (rows, heads of all jobs); the head lies in shared memory.
// Traffic: x once, the results once.

struct Job {
    const float* x;
    const float* weight;        // or null: no norm
    const float* frequencies;   // or null: no rotation
    float* out;                 // or null
    u16* cache;                 // or null: rows of `cols` halves, page after page
    u32 x_stride;
    u32 heads;
    u32 dims;
    u32 cols;                   // of a row of the result: heads * dims
    u32 first;                  // the first rotated dim of a head
    u32 rotary;
    u32 interleaved;
    float eps;
    float gain;
    u32 unused;
};

#define MOST_JOBS 3

struct Params {
    const u32* count;
    const u32* positions;
    const u32* places;
    Job job[MOST_JOBS];
};

extern "C" __global__ void __launch_bounds__(256) heads(const __grid_constant__ Params p) {
    extern __shared__ float head_dims[];
    __shared__ float work[32];
    begin();
    const u32 row = blockIdx.x;
    if (row >= *p.count) return;
    u32 head = blockIdx.y, index = 0;
    while (head >= p.job[index].heads) head -= p.job[index++].heads;
    const Job& job = p.job[index];
    const float* x = job.x + (u64)row * job.x_stride + head * job.dims;
    float squares = 0.0f;
    for (u32 i = threadIdx.x; i < job.dims; i += 256) {
        const float v = x[i];
        head_dims[i] = v;
        squares += v * v;
    }
    if (job.weight) {
        const float mean = block_sum(squares, work) / (float)job.dims;
        const float scale = 1.0f / sqrtf(mean + job.eps);
        for (u32 i = threadIdx.x; i < job.dims; i += 256) head_dims[i] = head_dims[i] * scale * job.weight[i];
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < job.dims; i += 256) {
        float v = head_dims[i];
        const u32 dim = i - job.first;  // wraps around below the first rotated dim
        if (job.frequencies && dim < job.rotary) {
            const u32 half = job.rotary / 2;
            const bool second = job.interleaved ? dim & 1 : dim >= half;
            const u32 pair = job.interleaved ? dim / 2 : second ? dim - half : dim;
            const u32 other = job.interleaved ? dim ^ 1 : second ? dim - half : dim + half;
            const float w = head_dims[job.first + other];
            float sine, cosine;
            sincosf(__fmul_rn((float)p.positions[row], job.frequencies[pair]), &sine, &cosine);
            v = job.gain * (second ? v * cosine + w * sine : v * cosine - w * sine);
        }
        const u32 column = head * job.dims + i;
        if (job.out) job.out[(u64)row * job.cols + column] = v;
        if (job.cache) job.cache[(u64)p.places[row] * job.cols + column] = float_to_half(v);
    }
}
