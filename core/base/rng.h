/* rng.h - keyed randomness: Philox4x32, one header for C and CUDA.
 *
 * There is no generator state.  A random decision is a pure function of
 *
 *     key      seed (64 bits)
 *     counter  { row | colgroup << 16,  uid,  purpose << 24 | layer << 12 | head,  epoch }
 *
 * so that the same sequence gets the same decisions alone, padded or packed, on every device, with
 * any number of threads and after a resume.  Rows and columns count inside the sequence as the op
 * receives it.  The step, rank, pack and slot do not enter.
 *
 * Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox4x32).
 */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define SR_HD __host__ __device__ __forceinline__
#else
#define SR_HD static inline
#endif

enum { SR_ROUNDS_DATA = 10, SR_ROUNDS_DROPOUT = 7 };

/* The purpose of a decision: the top byte of the third counter word.  Append only: changing the
 * meaning of a number changes every run. */
typedef enum sr_purpose {
    SR_PURPOSE_PAIRS = 1,      /* next-sentence pairs; uid = document */
    SR_PURPOSE_MASK = 2,       /* which positions are masked, and with what */
    SR_PURPOSE_PACK_ORDER = 3, /* order of packs in an epoch; permutation key */
    SR_PURPOSE_PARTNERS = 4,   /* who shares a pack; layer|head = length; permutation key */
    SR_PURPOSE_INIT = 5,       /* initial values; uid, epoch = hash of the parameter's name */
    SR_PURPOSE_DROP_EMBEDDING = 6,
    SR_PURPOSE_DROP_ATTENTION = 7,  /* attention probabilities */
    SR_PURPOSE_DROP_PROJECTION = 8, /* attention output, before the residual */
    SR_PURPOSE_DROP_FEED = 9,       /* feed-forward output, before the residual */
    SR_PURPOSE_DROP_HEAD = 10,      /* classifier input */
    SR_PURPOSE_DROP_USER = 11,
    SR_PURPOSE_TOKEN_DROP = 12,     /* random-LTD */
    SR_PURPOSE_SPLIT = 13,          /* held-out documents */
    SR_PURPOSE_TENSOR = 14,         /* sr.rand, sr.randn: uid = first word of the caller's key */
    SR_PURPOSE_SEQUENCE_ORDER = 15, /* order of sequences in an epoch; permutation key */
    SR_PURPOSE_DROP_INNER = 16,     /* feed-forward activations, before the second product */
    SR_PURPOSE_OBJECTIVE = 17,      /* whether a sequence is causal or masked */
    SR_PURPOSE_FIM = 18,            /* fill-in-the-middle: whether, the order, where it is cut */
    SR_PURPOSE_SAMPLE = 19          /* tokens drawn from a distribution */
} sr_purpose;

typedef struct sr_u32x4 {
    uint32_t w[4];
} sr_u32x4;

SR_HD sr_u32x4 sr_philox(sr_u32x4 counter, uint64_t seed, int rounds) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < rounds; i++) {
        uint64_t a = (uint64_t)0xD2511F53u * counter.w[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * counter.w[2];
        sr_u32x4 next;
        next.w[0] = (uint32_t)(b >> 32) ^ counter.w[1] ^ k0;
        next.w[1] = (uint32_t)b;
        next.w[2] = (uint32_t)(a >> 32) ^ counter.w[3] ^ k1;
        next.w[3] = (uint32_t)a;
#ifdef __CUDA_ARCH__ /* or nvcc multiplies 64 bits by 64 */
        asm("" : "+r"(next.w[0]), "+r"(next.w[2]));
#endif
        counter = next;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return counter;
}

SR_HD sr_u32x4 sr_counter(uint32_t row, uint32_t colgroup, uint32_t uid, sr_purpose purpose,
                          uint32_t layer, uint32_t head, uint32_t epoch) {
    sr_u32x4 c;
    c.w[0] = (row & 0xFFFFu) | colgroup << 16;
    c.w[1] = uid;
    c.w[2] = (uint32_t)purpose << 24 | (layer & 0xFFFu) << 12 | (head & 0xFFFu);
    c.w[3] = epoch;
    return c;
}

/* Dropout decides 16 columns of a row with one call.  The map is the accumulator layout of the
 * tensor-core instructions, so that on a GPU a thread owns all 16 decisions it draws. */
SR_HD uint32_t sr_drop_group(uint32_t col) {
    return (col >> 6) * 4 + (col >> 1 & 3);
}
SR_HD uint32_t sr_drop_byte(sr_u32x4 w, uint32_t col) {
    return w.w[col >> 4 & 3] >> 8 * ((col >> 3 & 1) * 2 + (col & 1)) & 255u;
}

/* Keep probability is n/256: n = round(256 (1 - p)), scale 256/n.  A decision is kept iff its byte
 * is below n.  p = 0 gives n = 256: everything is kept and no draw is needed. */
SR_HD uint32_t sr_keep_256(double p) {
    return (uint32_t)(256.0 * (1.0 - p) + 0.5);
}

/* Uniform in [0, n) with negligible modulo bias: the high word of x * n. */
SR_HD uint32_t sr_below(uint32_t x, uint32_t n) {
    return (uint32_t)((uint64_t)x * n >> 32);
}

/* A place in [0, 1), 32 bits, for the token at key[0] of sequence key[1] in epoch key[2]. */
SR_HD double sr_sample_at(const int32_t *key, uint64_t seed) {
    sr_u32x4 c = sr_counter((uint32_t)key[0], (uint32_t)key[0] >> 16, (uint32_t)key[1],
                            SR_PURPOSE_SAMPLE, 0, 0, (uint32_t)key[2]);
    return (double)sr_philox(c, seed, SR_ROUNDS_DATA).w[0] * (1.0 / 4294967296.0);
}

/* Uniform in [0, 1), 24 bits. */
SR_HD float sr_unit(uint32_t x) {
    return (float)(x >> 8) * (1.0f / 16777216.0f);
}
