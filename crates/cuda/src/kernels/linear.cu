// linear, plain numbers: out[r] = W x[r] (+ bias) (+ added[r]), FORMAT 0 f32, 1 f16, 2 bf16. INPUT: what x is: 0 as it
// lies there, 2 x * weight / sqrt(mean(x^2) + eps) with the weight in `second`.
//
// Layout. A warp makes one output of up to ROWS (8) rows: its lanes take eight consecutive inputs each in turn, f32 sums,
// added over the warp in one fixed order. A block has 8 warps: grid (blocks of 8 outputs of all targets, 1, groups of
// rows or chosen experts).
//
// Traffic: the weights once for each group of rows, x once for each output (from the caches).

#define ROWS 8

extern "C" __global__ void __launch_bounds__(256) linear(const __grid_constant__ LinearParams p) {
    typedef typename Numbers<FORMAT>::Stored Stored;
    begin();
    const Work work = find_work(p, ROWS);
    if (work.rows == 0) return;
    const u32 inputs = work.matrix.inputs;
#if INPUT == 2
    __shared__ float work_space[32], norms[ROWS];
    for (u32 r = 0; r < work.rows; r++) {
        float squares = 0.0f;
        for (u32 k = threadIdx.x; k < inputs; k += 256) {
            const float x = work.x[(u64)r * p.x_stride + k];
            squares += x * x;
        }
        squares = block_sum(squares, work_space);
        if (threadIdx.x == 0) norms[r] = 1.0f / sqrtf(squares / (float)inputs + p.eps);
    }
    __syncthreads();
#define X(r, k) (work.x[(u64)(r) * p.x_stride + (k)] * norms[r] * p.second[k])
#else
#define X(r, k) work.x[(u64)(r) * p.x_stride + (k)]
#endif
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = work.block * 8 + warp;
    if (n >= work.matrix.out) return;
    const Stored* weights = (const Stored*)work.matrix.data + (u64)n * inputs;
    float sums[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) sums[r] = 0.0f;
    u32 k = 0;
    // Rows of weights begin at multiples of 16 bytes if they are as long.
    if (inputs * sizeof(Stored) % 16 == 0) {
        for (k = lane * 8; k + 8 <= inputs; k += 256) {
            float w[8];
            if (sizeof(Stored) == 2) {
                const uint4 words = __ldg((const uint4*)(weights + k));
                const u32 pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    w[2 * i] = Numbers<FORMAT>::read((Stored)pairs[i]);
                    w[2 * i + 1] = Numbers<FORMAT>::read((Stored)(pairs[i] >> 16));
                }
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) w[i] = Numbers<FORMAT>::read(weights[k + i]);
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (r < work.rows) {
#pragma unroll
                    for (int i = 0; i < 8; i++) sums[r] += w[i] * X(r, k + i);
                }
            }
        }
        k = inputs / 8 * 8;
    }
    for (k += lane; k < inputs; k += 32) {
        const float w = Numbers<FORMAT>::read(weights[k]);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (r < work.rows) sums[r] += w * X(r, k);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float sum = warp_sum(sums[r]);
        if (lane == 0 && r < work.rows) {
            float y = sum;
            if (work.matrix.bias) y += work.matrix.bias[n];
            if (work.added) y = __fadd_rn(work.added[(u64)r * work.stride + n], y);
            work.out[(u64)r * work.stride + n] = y;
        }
    }
}
