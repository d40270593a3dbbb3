// What every kernel file begins with: number formats, sums over a warp and a block, and the step.
//
// No header is included, so that NVRTC needs nothing but itself; halves are handled by inline PTX.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define INFINITE __int_as_float(0x7f800000)

__device__ __forceinline__ float half_to_float(u16 h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

__device__ __forceinline__ u16 float_to_half(float f) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

// Two halves in one word, the first in the low bits.
__device__ __forceinline__ u32 half_pair(float low, float high) {
    return (u32)float_to_half(low) | (u32)float_to_half(high) << 16;
}

__device__ __forceinline__ float low_half(u32 pair) { return half_to_float((u16)pair); }
__device__ __forceinline__ float high_half(u32 pair) { return half_to_float((u16)(pair >> 16)); }

// Numbers of a plain tensor; FORMAT is 0 for f32, 1 for f16, 2 for bf16.
template <int KIND_OF_NUMBER> struct Numbers;
template <> struct Numbers<0> {
    typedef float Stored;
    static __device__ __forceinline__ float read(float x) { return x; }
};
template <> struct Numbers<1> {
    typedef u16 Stored;
    static __device__ __forceinline__ float read(u16 x) { return half_to_float(x); }
};
template <> struct Numbers<2> {
    typedef u16 Stored;
    static __device__ __forceinline__ float read(u16 x) { return __uint_as_float((u32)x << 16); }
};

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

// Sum and largest over a block of up to 32 warps, the same for all threads; `work` has 32 numbers.
__device__ __forceinline__ float block_sum(float x, float* work) {
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) work[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? work[threadIdx.x % 32] : 0.0f);
}

__device__ __forceinline__ float block_max(float x, float* work) {
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) work[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_max(threadIdx.x % 32 < blockDim.x / 32 ? work[threadIdx.x % 32] : -INFINITE);
}

// The Walsh-Hadamard transform of 128 numbers, four consecutive ones in each lane of a warp: butterflies of
// strides 1 to 64, not normalised.
#define NORMALISATION 0.088388347648f

__device__ __forceinline__ void hadamard_128(float v[4]) {
    float a = v[0] + v[1], b = v[0] - v[1], c = v[2] + v[3], d = v[2] - v[3];
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const bool upper = threadIdx.x & step;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float other = __shfl_xor_sync(0xffffffffu, v[i], step);
            v[i] = upper ? other - v[i] : v[i] + other;
        }
    }
}

// Programmatic dependent launch: a kernel may start while the one before it ends, and must wait before it reads what
// that one wrote or writes what that one reads. Only then it lets the next one start, so that no more than two overlap.
__device__ __forceinline__ void wait_for_kernel_before() {
#if ARCH >= 90
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_next_kernel_start() {
#if ARCH >= 90
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void begin() {
    wait_for_kernel_before();
    let_next_kernel_start();
}

// The numbers of a step that kernels look at; the host uploads them to one fixed place (`step.rs`).
struct Counts {
    u32 tokens;    // rows of the step
    u32 outputs;   // requested outputs
    u32 parity;    // 0 and 1 in turn: which half of `chosen` this step writes
    u32 room;      // outputs that one half of `chosen` holds
};

// The token id of a row: given, or drawn for an output of the step before.
#define PREVIOUS 0x80000000u
__device__ __forceinline__ u32 token_of(const Counts* counts, const u32* tokens, const u32* chosen, u32 row) {
    const u32 token = tokens[row];
    if (!(token & PREVIOUS)) return token;
    return chosen[(counts->parity ^ 1) * counts->room + (token & ~PREVIOUS)];
}
