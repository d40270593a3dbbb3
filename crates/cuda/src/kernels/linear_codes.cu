// linear, EXL3 codes: out[r] = ((x[r] * suh) H inner) H * svh (+ bias) (+ added[r]), H block-diagonal in blocks of 128.
//
// HALF_BITS: twice the bits a weight; CODEBOOK: 0 3inst, 1 mcg, 2 mul1; ROWS: 8 or 16 rows in one go.
//
// Layout. A block of 8 warps makes 128 outputs (a block of H) from one part of the inputs, a multiple of 128:
// grid (blocks of outputs of all targets, splits, groups of rows or chosen experts). First the part of x is rotated,
// rounded to f16 behind a power of two that keeps it in range, and put into shared memory. Then each warp walks one
// column of tiles: a lane decodes eight weights in registers, which are already an operand of mma.m16n8k16 (16 outputs
// x 16 inputs), and multiplies them with up to 8 rows at once, f32 sums. Splits are added by the block that
// finishes last, always in their order, so that results do not depend on who that is; it also turns the sums back.
//
// Traffic: the codes once for each group of ROWS rows (inputs * outputs * bits / 8 bytes), x once for each block.

#define WORDS (4 * HALF_BITS)        // of 32 bits in a tile
#define LANE_BITS (4 * HALF_BITS)    // that a lane's eight weights bring
// Whether a lane's weights and the 15 bits before them can reach back into a third word.
#define THREE_WORDS (HALF_BITS == 7 || HALF_BITS > 8)
#define FRAGMENTS (ROWS / 8)
#define UNROLL 4

#if CODEBOOK == 0
#define MULTIPLIER 89226354u
#define ADDEND 64248484u
#elif CODEBOOK == 1
#define MULTIPLIER 0xCBAC1FEDu
#define ADDEND 0u
#else
#define MULTIPLIER 0x83DCD12Du
#define ADDEND 0u
#endif

// Bits that the weights behind weight j of a lane bring.
__host__ __device__ constexpr int bits_behind(int j) {
    int bits = 0;
    for (int i = j + 1; i < 8; i++) bits += (HALF_BITS + i % 2) / 2;
    return bits;
}

// The last 96 bits of the ring up to the end of a lane's weights.
struct Window {
    u32 low, middle, high;
};

// The 16 bits that end `behind` bits before the window's end, with other bits above them.
template <int BEHIND> __device__ __forceinline__ u32 state(const Window& w) {
    if constexpr (BEHIND < 32)
        return __funnelshift_r(w.low, w.middle, BEHIND);
    else
        return __funnelshift_r(w.middle, w.high, BEHIND - 32);
}

// The values of two states as a pair of halves.
__device__ __forceinline__ u32 decode(u32 first, u32 second) {
    const u32 a = (first & 0xffffu) * MULTIPLIER + ADDEND, b = (second & 0xffffu) * MULTIPLIER + ADDEND;
    u32 pair;
#if CODEBOOK == 2
    // 1024 + byte sum is the half with the bits 0x6400 + byte sum; one fused product and sum rounds once.
    const u32 s = __dp4a(a, 0x01010101u, 0x6400u), t = __dp4a(b, 0x01010101u, 0x6400u);
    const u32 sums = __byte_perm(s, t, 0x5410);
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(sums), "r"(0x1EEE1EEEu), "r"(0xC931C931u));
#else
    const u32 c = (a & 0x8FFF8FFFu) ^ 0x3B603B60u, d = (b & 0x8FFF8FFFu) ^ 0x3B603B60u;
    const u32 low = __byte_perm(c, d, 0x5410), high = __byte_perm(c, d, 0x7632);
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(low), "r"(high));
#endif
    return pair;
}

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

extern "C" __global__ void __launch_bounds__(256) linear_codes(const __grid_constant__ LinearParams p) {
    begin();
    extern __shared__ u32 rotated[];  // [ROWS][part / 2 + 4] pairs of halves
    __shared__ float sums[ROWS][128];
    __shared__ float scales[ROWS];
    __shared__ u32 last;
    const Work work = find_work(p, ROWS);
    if (work.rows == 0) return;
    const u32 padded_inputs = (work.matrix.inputs + 127) / 128 * 128, blocks_in = padded_inputs / 128;
    const u32 padded_out = (work.matrix.out + 127) / 128 * 128;
    if (work.block * 128 >= padded_out) return;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // This block's part of the inputs, in blocks of 128.
    const u32 begin = blockIdx.y * blocks_in / p.splits, end = (blockIdx.y + 1) * blocks_in / p.splits;
    const u32 most = (blocks_in + p.splits - 1) / p.splits;
    const u32 row_words = most * 64 + 4;  // four more words, so that eight rows meet 32 different banks

    // The largest input of each row bounds what comes out of H: sqrt(128) times it.
    for (u32 row = warp; row < work.rows; row += 8) {
        float largest = 0.0f;
        for (u32 k = begin * 128 + lane; k < end * 128; k += 32) {
            const float x = k < work.matrix.inputs ? work.x[(u64)row * p.x_stride + k] : 0.0f;
            largest = fmaxf(largest, fabsf(x * half_to_float(work.matrix.suh[k])));
        }
        largest = warp_max(largest);
        // A power of two that takes the bound below 2^15.
        const int exponent = largest > 0.0f ? min(max(11 - (int)((__float_as_uint(largest) >> 23) - 127), -100), 100) : 0;
        if (lane == 0) scales[row] = __int_as_float((127 + exponent) << 23);
    }
    __syncthreads();
    for (u32 item = warp; item < work.rows * (end - begin); item += 8) {
        const u32 row = item / (end - begin), block = item % (end - begin);
        const u32 k = (begin + block) * 128 + lane * 4;
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float x = k + i < work.matrix.inputs ? work.x[(u64)row * p.x_stride + k + i] : 0.0f;
            v[i] = x * half_to_float(work.matrix.suh[k + i]) * scales[row];
        }
        hadamard_128(v);
        u32* to = rotated + row * row_words + block * 64 + lane * 2;
        to[0] = half_pair(v[0] * NORMALISATION, v[1] * NORMALISATION);
        to[1] = half_pair(v[2] * NORMALISATION, v[3] * NORMALISATION);
    }
    __syncthreads();

    float acc[FRAGMENTS][4];
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
        for (int i = 0; i < 4; i++) acc[f][i] = 0.0f;
    if (begin < end) {
        // Where a lane's weights end in the ring of a tile, and the words that hold the bits before.
        const u32 ring_end = LANE_BITS * (lane + 1);
        // No remainders here: NVRTC 13.0 makes wrong addresses of them where WORDS is no power of two.
        const u32 word0 = (ring_end - 1) / 32, word1 = word0 > 0 ? word0 - 1 : WORDS - 1, word2 = word1 > 0 ? word1 - 1 : WORDS - 1;
        const u32 shift = (32 - ring_end % 32) % 32;
        const u32 tile_row = 8 * WORDS;  // words from one tile of a column to the next
        const u32* codes = work.matrix.data + ((u64)work.block * blocks_in + begin) * 8 * tile_row + warp * WORDS;
        // Columns beyond the rows read a live one.
        const u32* b_rows[FRAGMENTS];
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) b_rows[f] = rotated + min(f * 8 + lane / 4, work.rows - 1) * row_words + lane % 4;
        const u32 tiles = (end - begin) * 8;
        u32 next[UNROLL][3];
#define FETCH(first)                                                                        \
    for (int u = 0; u < UNROLL; u++) {                                                      \
        const u32* at = codes + (u64)((first) + u) * tile_row;                              \
        next[u][0] = __ldg(at + word0);                                                     \
        next[u][1] = __ldg(at + word1);                                                     \
        next[u][2] = THREE_WORDS ? __ldg(at + word2) : 0;                                   \
    }
#pragma unroll
        FETCH(0)
        for (u32 tile = 0; tile < tiles; tile += UNROLL) {
            u32 now[UNROLL][3];
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                for (int i = 0; i < 3; i++) now[u][i] = next[u][i];
            if (tile + UNROLL < tiles) {
#pragma unroll
                FETCH(tile + UNROLL)
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                Window w;
                w.low = __funnelshift_r(now[u][0], now[u][1], shift);
                w.middle = __funnelshift_r(now[u][1], now[u][2], shift);
                w.high = now[u][2] >> shift;
                u32 a[4];
                a[0] = decode(state<bits_behind(0)>(w), state<bits_behind(1)>(w));
                a[2] = decode(state<bits_behind(2)>(w), state<bits_behind(3)>(w));
                a[1] = decode(state<bits_behind(4)>(w), state<bits_behind(5)>(w));
                a[3] = decode(state<bits_behind(6)>(w), state<bits_behind(7)>(w));
#pragma unroll
                for (int f = 0; f < FRAGMENTS; f++) {
                    const u32* b = b_rows[f] + (tile + u) * 8;
                    multiply(acc[f], a, b[0], b[4]);
                }
            }
        }
    }
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const u32 row = f * 8 + lane % 4 * 2, column = warp * 16 + lane / 4;
        sums[row][column] = acc[f][0];
        sums[row + 1][column] = acc[f][1];
        sums[row][column + 8] = acc[f][2];
        sums[row + 1][column + 8] = acc[f][3];
    }
    __syncthreads();

    if (p.splits > 1) {
        // Every split leaves its sums; the last one to come adds them up in their order.
        const u32 place = blockIdx.z * gridDim.x + blockIdx.x;
        float* partial = p.partial + (u64)place * p.splits * ROWS * 128;
        for (u32 i = threadIdx.x; i < work.rows * 128; i += 256)
            partial[blockIdx.y * ROWS * 128 + i] = sums[i / 128][i % 128] / scales[i / 128];
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last = atomicAdd(p.tickets + place, 1) == p.splits - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        for (u32 i = threadIdx.x; i < work.rows * 128; i += 256) {
            float sum = 0.0f;
            for (u32 split = 0; split < p.splits; split++) sum += __ldcg(partial + split * ROWS * 128 + i);
            sums[i / 128][i % 128] = sum;
        }
        if (threadIdx.x == 0) p.tickets[place] = 0;
        __syncthreads();
    }
    for (u32 row = warp; row < work.rows; row += 8) {
        float v[4];
        const float unscale = p.splits > 1 ? 1.0f : 1.0f / scales[row];
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = sums[row][lane * 4 + i] * unscale;
        hadamard_128(v);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 n = work.block * 128 + lane * 4 + i;
            if (n < work.matrix.out) {
                float y = v[i] * NORMALISATION * half_to_float(work.matrix.svh[n]);
                if (work.matrix.bias) y = __fadd_rn(y, work.matrix.bias[n]);
                if (work.added) y = __fadd_rn(work.added[(u64)row * work.stride + n], y);
                work.out[(u64)row * work.stride + n] = y;
            }
        }
    }
}
