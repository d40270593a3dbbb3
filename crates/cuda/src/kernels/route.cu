// route: score = softmax or sigmoid of the logits, or 1; key = score + bias; the experts of all groups but the best are
// out; the top_k largest keys are chosen, ties to the lower index; gate = score, perhaps normalised, times scale.
//
// SCORE: 0 softmax, 1 sigmoid, 2 a hash of token, position and layer. Layout: a warp a row, keys in shared memory
// (`experts` floats); a lane holds every 32nd. Traffic: the logits once.

struct Params {
    const float* logits;
    const float* bias;      // or null
    float* ids;
    float* gates;
    const Counts* counts;
    const u32* tokens;
    const u32* chosen;
    const u32* positions;
    u32 experts;
    u32 top_k;
    u32 groups;             // 0: no groups
    u32 chosen_groups;
    u32 layer;
    u32 normalised;
    float epsilon;
    float scale;
};

// Larger numbers first, then lower indices: the order of these whole numbers.
__device__ __forceinline__ u64 rank_of(float key, u32 index) {
    const u32 bits = __float_as_uint(key);
    const u32 ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64)ordered << 32 | (0xffffffffu - index);
}

__device__ __forceinline__ u64 warp_largest(u64 x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        const u64 other = __shfl_xor_sync(0xffffffffu, x, step);
        x = x > other ? x : other;
    }
    return x;
}

// SplitMix64, the generator that the contract names.
__device__ __forceinline__ u64 random_bits(u64& state) {
    state += 0x9e3779b97f4a7c15ull;
    u64 z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

extern "C" __global__ void __launch_bounds__(32) route(const Params p) {
    begin();
    extern __shared__ float keys[];  // [experts] keys, [experts] scores
    float* scores = keys + p.experts;
    const u32 row = blockIdx.x, lane = threadIdx.x;
    if (row >= p.counts->tokens) return;
    float* ids = p.ids + row * p.top_k;
#if SCORE == 2
    if (lane == 0) {
        const u64 token = token_of(p.counts, p.tokens, p.chosen, row);
        u64 state = token << 40 ^ (u64)p.positions[row] << 12 ^ (u64)p.layer;
        for (u32 slot = 0; slot < p.top_k;) {
            const float expert = (float)(u32)(random_bits(state) % p.experts);
            bool fresh = true;
            for (u32 other = 0; other < slot; other++) fresh = fresh && ids[other] != expert;
            if (fresh) ids[slot++] = expert;
        }
    }
    for (u32 e = lane; e < p.experts; e += 32) scores[e] = 1.0f;
    __syncwarp();
#else
    const float* logits = p.logits + (u64)row * p.experts;
#if SCORE == 0
    float best = -INFINITE;
    for (u32 e = lane; e < p.experts; e += 32) best = fmaxf(best, logits[e]);
    best = warp_max(best);
    float sum = 0.0f;
    for (u32 e = lane; e < p.experts; e += 32) {
        scores[e] = expf(logits[e] - best);
        sum += scores[e];
    }
    sum = warp_sum(sum);
    for (u32 e = lane; e < p.experts; e += 32) scores[e] /= sum;
#else
    for (u32 e = lane; e < p.experts; e += 32) scores[e] = 1.0f / (1.0f + expf(-logits[e]));
#endif
    for (u32 e = lane; e < p.experts; e += 32) keys[e] = scores[e] + (p.bias ? p.bias[e] : 0.0f);
    __syncwarp();
    if (p.groups) {
        const u32 size = p.experts / p.groups;
        // Up to 32 groups a round: a lane finds what its group is worth, then how many are worth more.
        float* worths = scores + p.experts;
        for (u32 g = lane; g < p.groups; g += 32) {
            float first = -INFINITE, second = -INFINITE;
            for (u32 e = g * size; e < (g + 1) * size; e++) {
                const float key = keys[e];
                if (key > first) {
                    second = first;
                    first = key;
                } else {
                    second = fmaxf(second, key);
                }
            }
            worths[g] = first + second;
        }
        __syncwarp();
        for (u32 g = lane; g < p.groups; g += 32) {
            u32 better = 0;
            for (u32 other = 0; other < p.groups; other++)
                better += rank_of(worths[other], other) > rank_of(worths[g], g);
            if (better >= p.chosen_groups)
                for (u32 e = g * size; e < (g + 1) * size; e++) keys[e] = -INFINITE;
        }
        __syncwarp();
    }
    for (u32 slot = 0; slot < p.top_k; slot++) {
        u64 largest = 0;
        for (u32 e = lane; e < p.experts; e += 32) {
            const u64 rank = rank_of(keys[e], e);
            largest = rank > largest ? rank : largest;
        }
        largest = warp_largest(largest);
        const u32 expert = 0xffffffffu - (u32)largest;
        if (lane == 0) ids[slot] = (float)expert;
        // What was chosen ranks below everything: no number, sign set.
        if (lane == expert % 32) keys[expert] = __uint_as_float(0xffffffffu);
        __syncwarp();
    }
#endif
    if (lane == 0) {
        float divisor = 1.0f;
        if (p.normalised) {
            divisor = 0.0f;
            for (u32 slot = 0; slot < p.top_k; slot++) divisor += scores[(u32)ids[slot]];
            divisor += p.epsilon;
        }
        for (u32 slot = 0; slot < p.top_k; slot++)
            p.gates[row * p.top_k + slot] = scores[(u32)ids[slot]] / divisor * p.scale;
    }
}
