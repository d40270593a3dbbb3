// embed, EXL3 codes: a row is rings of 256 channels, each with a scale;
// out[r][i] = f16(WHT256(mul1(state) * scale)[i] / 16 * sign[i]), states from the least significant bit up.
//
// Layout: a block of 256 threads a ring, a thread a channel; the transform's butterflies of strides 1 to 128 run in
// shared memory in the format's order, so that rows are exact to the bit. BITS is whole, 1 to 8.
// Traffic: one row of codes and of the output each.

struct Params {
    const u16* table;   // rows of rings, 1 + 16 BITS words of 16 bits each
    const u16* signs;   // halves, padded to multiples of 256
    float* out;
    const Counts* counts;
    const u32* tokens;
    const u32* chosen;
    u32 cols;
    u32 rings;          // of a row
};

#define RING_BITS (256 * BITS)

extern "C" __global__ void __launch_bounds__(256) embed_codes(const Params p) {
    begin();
    __shared__ float values[256];
    const u32 row = blockIdx.x, i = threadIdx.x;
    if (row >= p.counts->tokens) return;
    const u64 token = token_of(p.counts, p.tokens, p.chosen, row);
    const u16* ring = p.table + (token * p.rings + blockIdx.y) * (1 + 16 * BITS);
    // The state: the newest symbol in the low bits, older ones above.
    u32 state = 0;
#pragma unroll
    for (int back = 0; back * BITS < 16; back++) {
        const u32 bit = (i + 256 - back) % 256 * BITS;
        const u32 first = ring[1 + bit / 16], second = ring[1 + (bit / 16 + 1) % (16 * BITS)];
        const u32 symbol = ((first | second << 16) >> (bit % 16)) & ((1u << BITS) - 1);
        state |= symbol << (back * BITS);
    }
    const u32 z = (state & 0xffffu) * 0x83DCD12Du;
    const float sum = (float)(1024u + __dp4a(z, 0x01010101u, 0u));
    const float value = half_to_float(float_to_half(__fmaf_rn(sum, 0.00676727294921875f, -10.3828125f)));
    float v = __fmul_rn(value, half_to_float(ring[0]));
#pragma unroll
    for (int stride = 1; stride < 256; stride *= 2) {
        values[i] = v;
        __syncthreads();
        const float other = values[i ^ stride];
        v = i & stride ? other - v : v + other;
        __syncthreads();
    }
    const u32 channel = blockIdx.y * 256 + i;
    if (channel < p.cols) {
        const float signed_value = v * 0.0625f * half_to_float(p.signs[channel]);
        p.out[(u64)row * p.cols + channel] = half_to_float(float_to_half(signed_value));
    }
}
