// act_mul: out = act(gate) * up, act(x) = x / (1 + exp(-x));  add: out = a + b;  outputs: out[i] = x[row of output i].
// KIND: 0 act_mul, 1 add, 2 outputs.
//
// Layout: a thread a column, blocks of 256 columns: grid (rows, columns / 256). Traffic: operands and out once.

struct Params {
    const float* a;
    const float* b;
    float* out;
    const u32* count;
    const u32* rows;      // outputs: the row of each
    u32 cols;
    u32 factor;           // rows of the operands for each row counted
};

extern "C" __global__ void elementwise(const Params p) {
    begin();
    const u32 row = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x;
    if (row >= *p.count * p.factor || column >= p.cols) return;
    const u64 at = (u64)row * p.cols + column;
#if KIND == 0
    const float gate = p.a[at];
    // exp overflows to infinity below -88, and the quotient is 0 as it should be.
    p.out[at] = gate / (1.0f + expf(-gate)) * p.b[at];
#elif KIND == 1
    p.out[at] = p.a[at] + p.b[at];
#else
    p.out[at] = p.a[(u64)p.rows[row] * p.cols + column];
#endif
}
