// experts, last part: out[r] = sum over s of gates[r][s] * y[r][s] (+ y[r][shared]) (+ added[r]), in the order of s.
//
// Layout: a thread a column, blocks of 256 columns: grid (rows, columns / 256). Traffic: y and out once.

struct Params {
    const float* y;       // [rows, slots, cols]
    const float* gates;   // [rows, top_k]
    const float* added;   // what is added in the end, as out, or null
    float* out;
    const u32* count;
    u32 cols;
    u32 top_k;
    u32 slots;            // top_k, or one more: the shared expert's
};

extern "C" __global__ void experts_sum(const Params p) {
    begin();
    const u32 row = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x;
    if (row >= *p.count || column >= p.cols) return;
    const float* y = p.y + (u64)row * p.slots * p.cols + column;
    float sum = 0.0f;
    for (u32 slot = 0; slot < p.top_k; slot++) sum += p.gates[row * p.top_k + slot] * y[(u64)slot * p.cols];
    if (p.slots > p.top_k) sum += y[(u64)p.top_k * p.cols];
    const u64 at = (u64)row * p.cols + column;
    p.out[at] = p.added ? __fadd_rn(p.added[at], sum) : sum;
}
