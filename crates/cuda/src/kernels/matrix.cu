// Matrices and the lists of them that linear kernels multiply with.

// One linear map on the device (`weights.rs` writes these). Tiles of codes lie in the order of their use: for each block
// of 128 outputs all tile rows, of each the eight tiles.
struct Matrix {
    const u32* data;    // codes, or plain numbers row by row
    const u16* suh;     // sign times scale of each padded input, halves; codes only
    const u16* svh;     // sign times scale of each padded output, halves; codes only
    const float* bias;  // `out` numbers, or null
    u32 inputs;         // without padding
    u32 out;            // without padding
    u32 storage;        // which kernel can read it
    u32 unused;
};

// One result of a linear operation.
struct Target {
    const Matrix* table;  // of the chosen experts
    Matrix matrix;        // otherwise
    float* out;          // rows of `stride`
    const float* added;  // what is added to the result, as `out`, or null
    u32 stride;
    u32 blocks;          // blocks of outputs in the grid's first dimension
};

#define MOST_TARGETS 4

struct LinearParams {
    const float* x;      // rows of `x_stride`
    const float* second; // what else the inputs are made of (`gemv_codes.cu`), or null
    const u32* count;    // rows of the step
    const float* ids;    // chosen experts [rows, top_k], or null: then the grid's last dimension counts row groups
    float* partial;      // sums of each split, where there are several
    u32* tickets;        // zeros; how many splits of a block of outputs are done
    u32 x_stride;
    u32 top_k;
    u32 slots;           // top_k, or one more: the shared expert, the last of each table
    u32 x_divisor;       // with ids, the row of x is (row * slots + slot) / this
    u32 shared_index;    // the shared expert's index in a table
    u32 storage;         // which matrices this launch multiplies with; others are left to another launch
    u32 splits;          // parts of the input dimension
    u32 first_group;     // the grid's last dimension counts from here
    u32 targets;
    float eps;           // of the inputs' norm
    u32 small;           // whether the grid leaves room for the next kernel's blocks
    u32 aligned;         // whether rows of x and of `second` begin at multiples of 16 bytes
    Target target[MOST_TARGETS];
};

// What one block of threads works on.
struct Work {
    Matrix matrix;
    const float* x;       // the first row
    u64 x_offset;         // of it among all rows, in numbers
    float* out;           // the first row
    const float* added;   // as out, or null
    u32 stride;       // of out
    u32 block;        // which block of outputs
    u32 rows;         // how many rows; 0: nothing to do
    u32 group;        // which rows or which chosen expert
};

// Finds the work of this block; ROWS rows at most in one go.
__device__ __forceinline__ Work find_work(const LinearParams& p, u32 most_rows) {
    Work work;
    u32 block = blockIdx.x, index = 0;
    while (index + 1 < p.targets && block >= p.target[index].blocks) {
        block -= p.target[index].blocks;
        index++;
    }
    const Target& target = p.target[index];
    work.block = block;
    work.stride = target.stride;
    work.group = blockIdx.z + p.first_group;
    work.rows = 0;
    const u32 rows = *p.count;
    if (p.ids) {
        const u32 pair = work.group, row = pair / p.slots, slot = pair % p.slots;
        if (row >= rows) return work;
        const u32 expert = slot < p.top_k ? (u32)p.ids[row * p.top_k + slot] : p.shared_index;
        work.matrix = target.table[expert];
        if (work.matrix.storage != p.storage) return work;
        work.x_offset = (u64)(pair / p.x_divisor) * p.x_stride;
        work.out = target.out + (u64)pair * target.stride;
        work.added = target.added ? target.added + (u64)pair * target.stride : 0;
        work.rows = 1;
    } else {
        const u32 first = work.group * most_rows;
        if (first >= rows) return work;
        work.matrix = target.matrix;
        work.x_offset = (u64)first * p.x_stride;
        work.out = target.out + (u64)first * target.stride;
        work.added = target.added ? target.added + (u64)first * target.stride : 0;
        work.rows = min(most_rows, rows - first);
    }
    work.x = p.x + work.x_offset;
    return work;
}
