// answer: for each output a drawn token, the log-probability of one token, or nothing (logits are copied by the host).
//
// A draw walks the tokens in descending order of their logits, ties to the lower id, and takes the one at which the sum
// of weights passes a target. Nothing is sorted: `crossing` finds that token from the most significant byte of its rank
// down, by histograms of 256 bins. Weights exp((logit - best) / temperature) are whole multiples of 2^-40, so that
// their sums do not depend on the order in which threads add them.
//
// Layout: a block of 1,024 threads an output. Traffic: the known logits twice for a greedy draw or a score, up to 25
// times for others, from the caches. Outcomes go straight to the host's memory.

struct Want {
    u32 kind;          // 0 a token, 1 a log-probability, 2 logits
    u32 value;         // the token to score, or top-k
    float temperature;
    float top_p;
    float min_p;
    float random;
};

struct Given {
    u32 kind;          // 0 a token, 1 none could be drawn, 2 a log-probability, 3 logits
    u32 value;
};

struct Params {
    const float* logits;
    const Counts* counts;
    const Want* wants;
    Given* given;      // memory of the host: two halves of `counts->room`
    u32* chosen;       // the same on the device, tokens alone
    u32 vocab;
    u32 known;
};

__shared__ float work[32];
__shared__ u64 bins[256];
__shared__ u64 found[2];

__device__ __forceinline__ u64 rank_of(float logit, u32 id) {
    const u32 bits = __float_as_uint(logit);
    const u32 ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64)ordered << 32 | (0xffffffffu - id);
}

__device__ __forceinline__ u32 id_of(u64 rank) { return 0xffffffffu - (u32)rank; }

__device__ __forceinline__ u64 weight_of(float logit, float best, float temperature) {
    return (u64)(expf((logit - best) / temperature) * 1099511627776.0f);
}

struct Draw {
    const float* logits;
    u32 known;
    float best;
    float temperature;
};

// The largest rank for all threads, of those whose weight is not looked at.
__device__ u64 largest_rank(const Draw& d) {
    u64 largest = 0;
    for (u32 i = threadIdx.x; i < d.known; i += 1024) {
        const u64 rank = rank_of(d.logits[i] + 0.0f, i);  // -0 and 0 are one number here
        largest = rank > largest ? rank : largest;
    }
    for (int step = 16; step > 0; step >>= 1) {
        const u64 other = __shfl_xor_sync(0xffffffffu, largest, step);
        largest = other > largest ? other : largest;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) bins[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int i = 0; i < 32; i++) largest = bins[i] > largest ? bins[i] : largest;
    return largest;
}

// The rank of the first element, in descending order and not below `floor`, up to which (itself included) the sum of
// measures exceeds `target`; 0 if the sum of all does not. The measure is the weight, or 1 each (COUNT).
template <bool COUNT> __device__ u64 crossing(const Draw& d, u64 floor, u64 target) {
    u64 prefix = 0, passed = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        __syncthreads();
        if (threadIdx.x < 256) bins[threadIdx.x] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < d.known; i += 1024) {
            const u64 rank = rank_of(d.logits[i], i);
            if (rank < floor || (shift < 56 && (rank ^ prefix) >> (shift + 8))) continue;
            const u64 measure = COUNT ? 1 : weight_of(d.logits[i], d.best, d.temperature);
            if (measure) atomicAdd(&bins[rank >> shift & 255], measure);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u64 sum = passed;
            int bin = 255;
            while (bin >= 0 && sum + bins[bin] <= target) sum += bins[bin--];
            found[0] = bin < 0 ? 256 : bin;
            found[1] = sum;
        }
        __syncthreads();
        if (found[0] == 256) return 0;
        prefix |= found[0] << shift;
        passed = found[1];
    }
    return prefix;
}

// The sum of the weights of all elements not below `floor`.
__device__ u64 total_weight(const Draw& d, u64 floor) {
    u64 sum = 0;
    for (u32 i = threadIdx.x; i < d.known; i += 1024)
        if (rank_of(d.logits[i], i) >= floor) sum += weight_of(d.logits[i], d.best, d.temperature);
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) bins[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 32; i++) sum += bins[i];
    return sum;
}

// The lowest rank whose weight relative to the best is at least `least`: never above the best itself.
__device__ u64 rank_at_least(const Draw& d, float least, u64 floor) {
    u64 lowest = ~0ull;
    for (u32 i = threadIdx.x; i < d.known; i += 1024) {
        const u64 rank = rank_of(d.logits[i], i);
        if (rank >= floor && expf((d.logits[i] - d.best) / d.temperature) >= least && rank < lowest) lowest = rank;
    }
    for (int step = 16; step > 0; step >>= 1) {
        const u64 other = __shfl_xor_sync(0xffffffffu, lowest, step);
        lowest = other < lowest ? other : lowest;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) bins[threadIdx.x / 32] = lowest;
    __syncthreads();
    for (int i = 0; i < 32; i++) lowest = bins[i] < lowest ? bins[i] : lowest;
    return lowest;
}

extern "C" __global__ void __launch_bounds__(1024) answer(const Params p) {
    begin();
    const u32 output = blockIdx.x;
    if (output >= p.counts->outputs) return;
    const Want want = p.wants[output];
    const u64 slot = (u64)p.counts->parity * p.counts->room + output;
    const float* logits = p.logits + (u64)output * p.vocab;
    const u32 over = want.kind == 1 ? p.vocab : p.known;
    Given given = {3, 0};
    if (want.kind < 2) {
        float best = -INFINITE;
        bool number = true;
        for (u32 i = threadIdx.x; i < over; i += 1024) {
            number = number && logits[i] == logits[i];
            best = fmaxf(best, logits[i]);
        }
        best = block_max(best, work);
        number = __syncthreads_and(number);
        if (want.kind == 1) {
            float sum = 0.0f;
            for (u32 i = threadIdx.x; i < over; i += 1024) sum += expf(logits[i] - best);
            sum = block_sum(sum, work);
            given.kind = 2;
            given.value = __float_as_uint(number ? logits[want.value] - best - logf(sum) : __int_as_float(0x7fc00000));
        } else if (!number || !(fabsf(best) < INFINITE)) {
            given.kind = 1;
        } else {
            const Draw d = {logits, p.known, best, want.temperature};
            u64 rank;
            if (want.temperature <= 0.0f) {
                rank = largest_rank(d);
            } else {
                u64 floor = 0;
                if (want.value > 0 && want.value < p.known) floor = crossing<true>(d, 0, want.value - 1);
                u64 total = total_weight(d, floor);
                const u64 of_all = total;
                if (want.top_p < 1.0f) {
                    // The first token stays whatever top-p is: sums reach the target with it at the latest.
                    const u64 enough = (u64)((double)want.top_p * (double)of_all);
                    const u64 lowest = crossing<false>(d, floor, enough > 0 ? enough - 1 : 0);
                    floor = lowest > floor ? lowest : floor;
                }
                if (want.min_p > 0.0f) {
                    const u64 lowest = rank_at_least(d, want.min_p, floor);
                    floor = lowest > floor ? lowest : floor;
                }
                if (want.top_p < 1.0f || want.min_p > 0.0f) total = total_weight(d, floor);
                rank = crossing<false>(d, floor, min((u64)((double)want.random * (double)total), total - 1));
            }
            given.kind = 0;
            given.value = id_of(rank);
        }
    }
    if (threadIdx.x == 0) {
        p.given[slot] = given;
        p.chosen[slot] = given.kind == 0 ? given.value : 0;
    }
}
