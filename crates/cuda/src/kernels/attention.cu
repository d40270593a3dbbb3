// attend and attend_mla: out = sum_j softmax_j(q . key_j) value_j over the cached places j of a row's sequence.
//
// The query heads that share one key head meet its keys together, as the rows of a matrix product. Grouped-query
// attention: GROUP heads, keys and values are two parts of the cache. Latent attention (LATENT): GROUP of all heads at a
// time, the key of a place is its latent beside its rotary key, the value is the latent itself.
// Constants: GROUP, KEY_DIMS, VALUE_DIMS, LATENT, FIRST_COLS and SECOND_COLS (halves a row of each part), TILE.
//
// Layout. grid (splits of the context, rows, groups of heads), 8 warps. A block takes a run of tiles of TILE places (64, a
// page, or less), keeps an online softmax, and leaves unnormalised sums with their largest score and weight for
// `combine`. In a tile: rows of the cache to shared memory; scores by mma.m16n8k16, each warp 8 places; weights as
// halves; sums by mma, each warp every eighth run of 8 value columns. Dimensions are padded with zeros to multiples of 16.
//
// Traffic: the cached rows once for each row of the step and group of heads.

#define PADDED(n) (((n) + 15) / 16 * 16)
#define M_TILES (PADDED(GROUP) / 16)
#define HEADS_PADDED PADDED(GROUP)
#define KEYS PADDED(KEY_DIMS)
#define VALUES PADDED(VALUE_DIMS)
#define KEY_STRIDE (KEYS + 8)        // halves; eight more, so that rows begin in different banks
#define VALUE_STRIDE (LATENT ? KEY_STRIDE : VALUES + 8)
#define WEIGHT_STRIDE (TILE + 8)
#define N_TILES ((VALUES / 8 + 7) / 8)

struct Params {
    const float* q;        // rows of `q_stride`, heads of KEY_DIMS
    const u16* first;      // keys or latents
    const u16* second;     // values or rotary keys
    float* sums;           // [rows, heads, splits, VALUE_DIMS]
    float* weights;        // [rows, heads, splits, 2]: largest score, sum of weights
    const u32* count;
    const u32* lengths;    // places that each row attends to
    const u32* tables;     // where each row's page table begins
    const u32* pages;
    u32 q_stride;
    u32 heads;
    u32 splits;
    float scale;
};

__device__ __forceinline__ void multiply(float sums[4], const u32 a[4], u32 b0, u32 b1) {
#if ARCH >= 80
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

// Two halves of two rows of shared memory as a pair: what an operand takes whose pairs run down a column.
__device__ __forceinline__ u32 down(const u16* at, u32 stride) { return (u32)at[0] | (u32)at[stride] << 16; }

// The operand A of rows `row`.. and columns `column`.. of a row-major matrix of halves in shared memory.
__device__ __forceinline__ void operand(u32 a[4], const u16* matrix, u32 stride, u32 row, u32 column) {
    const u32 lane = threadIdx.x % 32;
    const u16* at = matrix + (row + lane / 4) * stride + column + lane % 4 * 2;
    a[0] = *(const u32*)at;
    a[1] = *(const u32*)(at + 8 * stride);
    a[2] = *(const u32*)(at + 8);
    a[3] = *(const u32*)(at + 8 * stride + 8);
}

// Copies `cols` halves of each of TILE places to shared memory, with zeros behind them up to `padded` and for places
// past `places`.
__device__ __forceinline__ void fetch(u16* to, u32 stride, const u16* from, u32 row_cols, u32 cols, u32 padded, u32 places) {
    if (row_cols % 8 == 0 && cols % 8 == 0 && padded % 8 == 0) {
        for (u32 i = threadIdx.x; i < TILE * (padded / 8); i += 256) {
            const u32 place = i / (padded / 8), column = i % (padded / 8) * 8;
            uint4 x = make_uint4(0, 0, 0, 0);
            if (place < places && column < cols) x = *(const uint4*)(from + (u64)place * row_cols + column);
            *(uint4*)(to + place * stride + column) = x;
        }
    } else {
        for (u32 i = threadIdx.x; i < TILE * padded; i += 256) {
            const u32 place = i / padded, column = i % padded;
            to[place * stride + column] = place < places && column < cols ? from[(u64)place * row_cols + column] : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) attention(const Params p) {
    begin();
    extern __shared__ uint4 shared[];
    u16* const queries = (u16*)shared;                              // [HEADS_PADDED][KEY_STRIDE]
    u16* const keys = queries + HEADS_PADDED * KEY_STRIDE;          // [TILE][KEY_STRIDE]
    u16* const values = LATENT ? keys : keys + TILE * KEY_STRIDE;   // [TILE][VALUE_STRIDE]
    u16* const weights = values + TILE * VALUE_STRIDE;              // [HEADS_PADDED][WEIGHT_STRIDE]
    __shared__ float scores[HEADS_PADDED][TILE + 1];
    __shared__ float largest[HEADS_PADDED], total[HEADS_PADDED], factor[HEADS_PADDED];

    const u32 split = blockIdx.x, row = blockIdx.y, group = blockIdx.z;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= *p.count) return;
    const u32 heads = min((u32)GROUP, p.heads - group * GROUP);
    const u32 length = p.lengths[row], tiles = (length + TILE - 1) / TILE;
    const u32 each = (tiles + p.splits - 1) / p.splits;
    const u32 begin = split * each, end = min(begin + each, tiles);
    if (begin >= end) return;
    const u32* pages = p.pages + p.tables[row];

    for (u32 i = threadIdx.x; i < HEADS_PADDED * KEYS; i += 256) {
        const u32 head = i / KEYS, column = i % KEYS;
        const float* q = p.q + (u64)row * p.q_stride + (group * GROUP + head) * KEY_DIMS;
        queries[head * KEY_STRIDE + column] = head < heads && column < KEY_DIMS ? float_to_half(q[column] * p.scale) : 0;
    }
    if (threadIdx.x < HEADS_PADDED) {
        largest[threadIdx.x] = -INFINITE;
        total[threadIdx.x] = 0.0f;
    }
    float acc[M_TILES][N_TILES][4];
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
        for (int n = 0; n < N_TILES; n++)
            for (int i = 0; i < 4; i++) acc[m][n][i] = 0.0f;

    for (u32 tile = begin; tile < end; tile++) {
        const u32 place = tile * TILE, places = min((u32)TILE, length - place);
        const u64 at = (u64)pages[place / 64] * 64 + place % 64;
        __syncthreads();
#if LATENT
        fetch(keys, KEY_STRIDE, p.first + at * FIRST_COLS, FIRST_COLS, FIRST_COLS, FIRST_COLS, places);
        fetch(keys + FIRST_COLS, KEY_STRIDE, p.second + at * SECOND_COLS, SECOND_COLS, SECOND_COLS, KEYS - FIRST_COLS, places);
#else
        fetch(keys, KEY_STRIDE, p.first + at * FIRST_COLS + group * KEY_DIMS, FIRST_COLS, KEY_DIMS, KEYS, places);
        fetch(values, VALUE_STRIDE, p.second + at * SECOND_COLS + group * VALUE_DIMS, SECOND_COLS, VALUE_DIMS, VALUES, places);
#endif
        __syncthreads();
        // Scores: rows are heads, columns places.
        for (u32 n = warp; n < TILE / 8; n += 8) {
            float s[M_TILES][4];
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
                for (int i = 0; i < 4; i++) s[m][i] = 0.0f;
            const u16* b = keys + (n * 8 + lane / 4) * KEY_STRIDE + lane % 4 * 2;
#pragma unroll 4
            for (int k = 0; k < KEYS; k += 16) {
                const u32 b0 = *(const u32*)(b + k), b1 = *(const u32*)(b + k + 8);
#pragma unroll
                for (int m = 0; m < M_TILES; m++) {
                    u32 a[4];
                    operand(a, queries, KEY_STRIDE, m * 16, k);
                    multiply(s[m], a, b0, b1);
                }
            }
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                const u32 head = m * 16 + lane / 4, column = n * 8 + lane % 4 * 2;
                scores[head][column] = s[m][0];
                scores[head][column + 1] = s[m][1];
                scores[head + 8][column] = s[m][2];
                scores[head + 8][column + 1] = s[m][3];
            }
        }
        __syncthreads();
        // The softmax so far: a warp a head.
        for (u32 head = warp; head < HEADS_PADDED; head += 8) {
            float best = -INFINITE;
            for (u32 j = lane; j < places; j += 32) best = fmaxf(best, scores[head][j]);
            best = fmaxf(warp_max(best), largest[head]);
            float sum = 0.0f;
            for (u32 j = lane; j < TILE; j += 32) {
                const float weight = j < places ? expf(scores[head][j] - best) : 0.0f;
                const u16 rounded = float_to_half(weight);
                weights[head * WEIGHT_STRIDE + j] = rounded;
                sum += half_to_float(rounded);
            }
            sum = warp_sum(sum);
            __syncwarp();
            if (lane == 0) {
                factor[head] = expf(largest[head] - best);
                total[head] = total[head] * factor[head] + sum;
                largest[head] = best;
            }
        }
        __syncthreads();
        // Sums of values: rows are heads, columns value dims.
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            const float low = factor[m * 16 + lane / 4], high = factor[m * 16 + lane / 4 + 8];
#pragma unroll
            for (int n = 0; n < N_TILES; n++) {
                acc[m][n][0] *= low;
                acc[m][n][1] *= low;
                acc[m][n][2] *= high;
                acc[m][n][3] *= high;
            }
        }
#pragma unroll
        for (int k = 0; k < TILE; k += 16) {
            u32 a[M_TILES][4];
#pragma unroll
            for (int m = 0; m < M_TILES; m++) operand(a[m], weights, WEIGHT_STRIDE, m * 16, k);
#pragma unroll
            for (int n = 0; n < N_TILES; n++) {
                const u32 column = (n * 8 + warp) * 8;
                if (column < VALUES) {
                    const u16* b = values + (k + lane % 4 * 2) * VALUE_STRIDE + column + lane / 4;
                    const u32 b0 = down(b, VALUE_STRIDE), b1 = down(b + 8 * VALUE_STRIDE, VALUE_STRIDE);
#pragma unroll
                    for (int m = 0; m < M_TILES; m++) multiply(acc[m][n], a[m], b0, b1);
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
#pragma unroll
        for (int n = 0; n < N_TILES; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const u32 head = m * 16 + lane / 4 + i / 2 * 8, column = (n * 8 + warp) * 8 + lane % 4 * 2 + i % 2;
                if (head < heads && column < VALUE_DIMS) {
                    const u64 at = ((u64)row * p.heads + group * GROUP + head) * p.splits + split;
                    p.sums[at * VALUE_DIMS + column] = acc[m][n][i];
                }
            }
        }
    }
    if (threadIdx.x < heads) {
        const u64 at = ((u64)row * p.heads + group * GROUP + threadIdx.x) * p.splits + split;
        p.weights[at * 2] = largest[threadIdx.x];
        p.weights[at * 2 + 1] = total[threadIdx.x];
    }
}
