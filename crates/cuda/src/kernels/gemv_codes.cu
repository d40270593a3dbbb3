// linear, EXL3 codes, for 1 to 4 rows: out[r] = ((x[r] * suh) H inner) H * svh (+ bias) (+ added[r]).
//
// HALF_BITS: twice the bits a weight; CODEBOOK: 0 3inst, 1 mcg, 2 mul1; ROWS: 1 or 4 rows in one go. INPUT: what x is: 0 as it lies there,
// 1 silu(x) * second, 2 x * weight / sqrt(mean(x^2) + eps) with the weight in `second`. Needs compute capability 9.0.
//
// Idea: the tensor cores do the codebook's sum. For mul1 a weight is an affine function of the byte sum of
// z = state * multiplier, so z as it is becomes four u8 of the operand A, whose four inputs are one activation's byte
// repeated: mma.m16n8k32 with exact i32 sums. An activation of 16 bits is two columns, 256 * high + low. For 3inst and
// mcg the masked z is a pair of halves whose sum is the weight, met by a pair of equal halves: mma.m16n8k16, f32 sums.
// Nothing is rounded to f16 in between: a weight is off by at most 2^-12 of itself.
//
// Layout. A cluster of `splits` blocks makes 128 outputs (a block of H); each takes a part of the inputs, a multiple of 128.
// grid (blocks of outputs of all targets, splits, groups of ROWS rows or chosen experts). A ninth warp fetches codes, a
// bulk copy for each stage of 8 tile rows, into a ring; it begins before the kernel waits for the one before it. Meanwhile
// eight warps rotate and quantise x; then each walks one column of tiles. The blocks' sums meet in shared memory of the
// first one, in their order, which turns them back.
//
// Traffic: the codes once (inputs * outputs * bits / 8 bytes), x once for each block.

#define WORDS (4 * HALF_BITS)        // of 32 bits in a tile
#define LANE_BITS (4 * HALF_BITS)    // that a lane's eight weights bring
#define THREE_WORDS (HALF_BITS == 7 || HALF_BITS > 8)
#define STAGES (HALF_BITS > 8 ? 4 : 6)
#define TILE_ROW (8 * WORDS)         // words of eight tiles
#define STAGE_WORDS (8 * TILE_ROW)
#define CONSUMERS 256
#define HELD (ROWS == 1 ? 2 : 1)     // blocks of inputs that a warp holds on to between two passes
#define COLUMNS (CODEBOOK == 2 ? 2 : 1)        // of the operand B a row

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

// 32 bits that end `behind` bits before the window's end.
template <int BEHIND> __device__ __forceinline__ u32 bits_at(const Window& w) {
    if constexpr (BEHIND < 32)
        return __funnelshift_r(w.low, w.middle, BEHIND);
    else
        return __funnelshift_r(w.middle, w.high, BEHIND - 32);
}

// The hash of weight J of a lane. Where the state 16 bits on is another weight's, both come of one shift.
template <int J> __device__ __forceinline__ u32 hash(const Window& w) {
    constexpr int behind = bits_behind(J);
    u32 state;
    if constexpr ((HALF_BITS == 8 || HALF_BITS == 16) && behind >= 16 && (behind < 32 || behind >= 48))
        state = bits_at<behind - 16>(w) >> 16;
    else
        state = bits_at<behind>(w) & 0xffffu;
    u32 z = state * MULTIPLIER + ADDEND;
#if CODEBOOK != 2
    // (z & mask) ^ flip in one operation, which the compiler does not find with two constants.
    asm("lop3.b32 %0, %0, %1, %2, 0x6a;" : "+r"(z) : "r"(0x8FFF8FFFu), "r"(0x3B603B60u));
#endif
    return z;
}

#if CODEBOOK == 2
typedef int Sum;
__device__ __forceinline__ void multiply(Sum s[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#else
typedef float Sum;
__device__ __forceinline__ void multiply(Sum s[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#endif

__device__ __forceinline__ u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

__device__ __forceinline__ void barrier_init(u64* barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u64* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void barrier_expect(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(u64* barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ __forceinline__ void bulk_copy(void* to, const void* from, u32 bytes, u64* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// Waits for the eight warps that multiply.
__device__ __forceinline__ void consumers_barrier() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Four numbers of shared memory of block `rank` of the cluster, at this block's address `at`.
__device__ __forceinline__ float4 cluster_load(const float* at, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(at)), "r"(rank));
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(there) : "memory");
    return v;
}

// A part of the inputs of one block.
struct Part {
    u32 begin, blocks;  // in blocks of 128, which are also the stages
    const u32* codes;
};

__device__ __forceinline__ Part part_of(const LinearParams& p, const Work& work) {
    const u32 blocks_in = (work.matrix.inputs + 127) / 128;
    Part part;
    part.begin = blockIdx.y * blocks_in / p.splits;
    part.blocks = (blockIdx.y + 1) * blocks_in / p.splits - part.begin;
    part.codes = work.matrix.data + ((u64)work.block * blocks_in + part.begin) * STAGE_WORDS;
    return part;
}

// Four rotated inputs of a row, not normalised.
__device__ __forceinline__ void rotated(float v[4], const LinearParams& p, const Work& work, u32 row, u32 k, float scale) {
    const float* x = work.x + (u64)row * p.x_stride;
    const uint2 signs = *(const uint2*)(work.matrix.suh + k);
    const float suh[4] = {low_half(signs.x), high_half(signs.x), low_half(signs.y), high_half(signs.y)};
    float x_i[4];
#if INPUT == 1
    float other[4];
    const float* second = p.second + work.x_offset + (u64)row * p.x_stride;
#elif INPUT == 2
    float other[4];
    const float* second = p.second;
#endif
    // Rows begin at multiples of 16 bytes if they are as long.
    if (k + 4 <= work.matrix.inputs && p.aligned) {
        *(float4*)x_i = *(const float4*)(x + k);
#if INPUT
        *(float4*)other = *(const float4*)(second + k);
#endif
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x_i[i] = k + i < work.matrix.inputs ? x[k + i] : 0.0f;
#if INPUT
            other[i] = k + i < work.matrix.inputs ? second[k + i] : 0.0f;
#endif
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
#if INPUT == 1
        x_i[i] = x_i[i] / (1.0f + expf(-x_i[i])) * other[i];
#elif INPUT == 2
        x_i[i] = x_i[i] * scale * other[i];
#endif
        v[i] = x_i[i] * suh[i];
    }
    hadamard_128(v);
}

extern "C" __global__ void __launch_bounds__(288, 3) gemv_codes(const __grid_constant__ LinearParams p) {
    extern __shared__ uint4 shared[];
    u32* const ring = (u32*)shared;                             // [STAGES][8 tile rows][8 tiles]
    uint4* const operand = shared + STAGES * STAGE_WORDS / 4;   // [tile rows][4][columns]
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ __align__(16) float sums[ROWS][128];
    __shared__ int largest[ROWS];
#if CODEBOOK == 2
    __shared__ int totals[ROWS];
#endif
#if INPUT == 2
    __shared__ float work_space[8], norms[ROWS];
#endif
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (threadIdx.x == CONSUMERS) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(full + i, 1);
            barrier_init(empty + i, 8);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (threadIdx.x < ROWS) {
        largest[threadIdx.x] = 0;
#if CODEBOOK == 2
        totals[threadIdx.x] = 0;
#endif
    }
    __syncthreads();
    // Which weights chosen experts have is known after the kernel before; other weights are fetched meanwhile.
    if (p.ids) wait_for_kernel_before();
    const Work work = find_work(p, ROWS);
    if (work.rows == 0 || work.block * 128 >= (work.matrix.out + 127) / 128 * 128) return;
    const Part part = part_of(p, work);

    if (warp == 8) {
        if (lane == 0) {
            for (u32 stage = 0; stage < part.blocks; stage++) {
                const u32 slot = stage % STAGES;
                if (stage >= STAGES) barrier_wait(empty + slot, stage / STAGES % 2 ^ 1);
                barrier_expect(full + slot, STAGE_WORDS * 4);
                bulk_copy(ring + slot * STAGE_WORDS, part.codes + (u64)stage * STAGE_WORDS, STAGE_WORDS * 4, full + slot);
            }
        }
        __syncwarp();
        if (p.splits > 1) {
            cluster_barrier();
            cluster_barrier();
        }
        return;
    }
    const uint2 out_signs = *(const uint2*)(work.matrix.svh + work.block * 128 + lane * 4);
    if (!p.ids) wait_for_kernel_before();
    if (p.small) let_next_kernel_start();

#if INPUT == 2
    for (u32 row = 0; row < work.rows; row++) {
        float squares = 0.0f;
        for (u32 k = threadIdx.x; k < work.matrix.inputs; k += CONSUMERS) {
            const float x = work.x[(u64)row * p.x_stride + k];
            squares += x * x;
        }
        // As block_sum does, by the eight warps alone.
        squares = warp_sum(squares);
        if (lane == 0) work_space[warp] = squares;
        consumers_barrier();
        squares = warp_sum(lane < 8 ? work_space[lane] : 0.0f);
        if (threadIdx.x == 0) norms[row] = 1.0f / sqrtf(squares / (float)work.matrix.inputs + p.eps);
        consumers_barrier();
    }
#define NORM(row) norms[row]
#else
#define NORM(row) 1.0f
#endif
    // The largest rotated input of each row, then all of them as whole numbers (mul1) or halves.
    constexpr u32 columns = ROWS * COLUMNS;
    float held[HELD][ROWS][4];
    float v[4];
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        if (row < work.rows) {
            float most = 0.0f;
#pragma unroll
            for (int i = 0; i < HELD; i++) {
                const u32 block = warp + i * 8;
                if (block < part.blocks) {
                    rotated(held[i][row], p, work, row, (part.begin + block) * 128 + lane * 4, NORM(row));
                    for (int j = 0; j < 4; j++) most = fmaxf(most, fabsf(held[i][row][j]));
                }
            }
            for (u32 block = warp + HELD * 8; block < part.blocks; block += 8) {
                rotated(v, p, work, row, (part.begin + block) * 128 + lane * 4, NORM(row));
                for (int j = 0; j < 4; j++) most = fmaxf(most, fabsf(v[j]));
            }
            most = warp_max(most);
            if (lane == 0) atomicMax(largest + row, __float_as_int(most));
        }
    }
    consumers_barrier();
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        if (row < work.rows) {
            const float most = fmaxf(__int_as_float(largest[row]), 1e-30f);
#if CODEBOOK == 2
            const float scale = 32600.0f / most;
            int total = 0;
#else
            const float scale = 1024.0f / most;
#endif
            auto store = [&](const float* x, u32 block) {
                // Inputs 4 lane .. of the block lie in tile row lane / 4; there input kk belongs to lanes kk % 8 / 2, and
                // word 2 (kk % 2) + kk / 8 of theirs.
                const u32 tile = block * 8 + lane / 4;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const u32 kk = lane % 4 * 4 + i, t = kk % 8 / 2, word = kk % 2 * 2 + kk / 8;
                    u32* to = (u32*)(operand + (tile * 4 + t) * columns) + word;
#if CODEBOOK == 2
                    const int q = __float2int_rn(x[i] * scale), high = (q + 128) >> 8, low = q - high * 256;
                    to[row * 8] = (u32)(high & 255) * 0x01010101u;
                    to[row * 8 + 4] = (u32)(low & 255) * 0x01010101u;
                    total += q;
#else
                    to[row * 4] = (u32)float_to_half(x[i] * scale) * 0x00010001u;
#endif
                }
            };
#pragma unroll
            for (int i = 0; i < HELD; i++)
                if (warp + i * 8 < part.blocks) store(held[i][row], warp + i * 8);
            for (u32 block = warp + HELD * 8; block < part.blocks; block += 8) {
                rotated(v, p, work, row, (part.begin + block) * 128 + lane * 4, NORM(row));
                store(v, block);
            }
#if CODEBOOK == 2
            for (int step = 16; step > 0; step >>= 1) total += __shfl_xor_sync(0xffffffffu, total, step);
            if (lane == 0) atomicAdd(totals + row, total);
#endif
        }
    }
    consumers_barrier();

    Sum first[4] = {0, 0, 0, 0}, second[4] = {0, 0, 0, 0};
    const u32 ring_end = LANE_BITS * (lane + 1);
    // No remainders here: NVRTC 13.0 makes wrong addresses of them where WORDS is no power of two.
    const u32 word0 = (ring_end - 1) / 32, word1 = word0 > 0 ? word0 - 1 : WORDS - 1, word2 = word1 > 0 ? word1 - 1 : WORDS - 1;
    const u32 shift = (32 - ring_end % 32) % 32;
    // Columns beyond those of the rows read a live one.
    const uint4* b_lane = operand + lane % 4 * columns + min(lane / 4, work.rows * COLUMNS - 1);
    for (u32 stage = 0; stage < part.blocks; stage++) {
        const u32 slot = stage % STAGES;
        barrier_wait(full + slot, stage / STAGES % 2);
        // All codes of the stage first, so that their latency counts once.
        const u32* codes = ring + slot * STAGE_WORDS + warp * WORDS;
        const u32 *codes0 = codes + word0, *codes1 = codes + word1, *codes2 = codes + word2;
        u32 a[8], b[8], c[8];
#pragma unroll
        for (int u = 0; u < 8; u++) {
            a[u] = codes0[u * TILE_ROW];
            b[u] = codes1[u * TILE_ROW];
            c[u] = THREE_WORDS ? codes2[u * TILE_ROW] : 0;
        }
        const uint4* b_stage = b_lane + stage * 8 * 4 * columns;
        uint4 next = b_stage[0];
#pragma unroll
        for (int u = 0; u < 8; u++) {
            const uint4 x = next;
            if (u < 7) next = b_stage[(u + 1) * 4 * columns];
            Window w;
            w.low = __funnelshift_r(a[u], b[u], shift);
            w.middle = __funnelshift_r(b[u], c[u], shift);
            w.high = c[u] >> shift;
            multiply(first, hash<0>(w), hash<4>(w), hash<2>(w), hash<6>(w), x.x, x.y);
            multiply(second, hash<1>(w), hash<5>(w), hash<3>(w), hash<7>(w), x.z, x.w);
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + slot);
    }
    if (!p.small) let_next_kernel_start();

    // Lane 4g + t has outputs g and g + 8 of its warp's sixteen, columns 2t and 2t + 1.
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const u32 column = warp * 16 + lane / 4 + half * 8, t = lane % 4;
#if CODEBOOK == 2
        if (t < work.rows) {
            const float high = (float)(first[2 * half] + second[2 * half]), low = (float)(first[2 * half + 1] + second[2 * half + 1]);
            const float bytes = 256.0f * high + low;
            const float sum = 0.00676727294921875f * bytes - 3.453125f * (float)totals[t];
            sums[t][column] = sum * (fmaxf(__int_as_float(largest[t]), 1e-30f) / 32600.0f);
        }
#else
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (2 * t + i < work.rows)
                sums[2 * t + i][column] =
                    (first[2 * half + i] + second[2 * half + i]) * (fmaxf(__int_as_float(largest[2 * t + i]), 1e-30f) / 1024.0f);
#endif
    }
    if (p.splits > 1)
        cluster_barrier();
    else
        consumers_barrier();
    if (blockIdx.y == 0) {
        for (u32 row = warp; row < work.rows; row += 8) {
            v[0] = v[1] = v[2] = v[3] = 0.0f;
            for (u32 split = 0; split < p.splits; split++) {
                const float4 part_sums = cluster_load(&sums[row][lane * 4], split);
                v[0] += part_sums.x;
                v[1] += part_sums.y;
                v[2] += part_sums.z;
                v[3] += part_sums.w;
            }
            hadamard_128(v);
            const float svh[4] = {low_half(out_signs.x), high_half(out_signs.x), low_half(out_signs.y), high_half(out_signs.y)};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const u32 n = work.block * 128 + lane * 4 + i;
                if (n < work.matrix.out) {
                    // Both rotations leave a factor of sqrt(128).
                    float y = v[i] * (NORMALISATION * NORMALISATION) * svh[i];
                    if (work.matrix.bias) y = __fadd_rn(y, work.matrix.bias[n]);
                    if (work.added) y = __fadd_rn(work.added[(u64)row * work.stride + n], y);
                    work.out[(u64)row * work.stride + n] = y;
                }
            }
        }
    }
    // No block may end while another reads its sums.
    if (p.splits > 1) cluster_barrier();
}
