// embed, plain table: out[r] = table[token(r)], FORMAT 0 f32, 1 f16, 2 bf16.
//
// Layout: a block a row, a thread a column in turn. Traffic: one row of the table and of the output each.

struct Params {
    const void* table;
    float* out;
    const Counts* counts;
    const u32* tokens;
    const u32* chosen;
    u32 cols;
};

extern "C" __global__ void embed(const Params p) {
    begin();
    typedef typename Numbers<FORMAT>::Stored Stored;
    const u32 row = blockIdx.x;
    if (row >= p.counts->tokens) return;
    const Stored* from = (const Stored*)p.table + (u64)token_of(p.counts, p.tokens, p.chosen, row) * p.cols;
    for (u32 i = threadIdx.x; i < p.cols; i += blockDim.x) p.out[(u64)row * p.cols + i] = Numbers<FORMAT>::read(from[i]);
}
