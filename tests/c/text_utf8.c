/* text_utf8.c - decoding against a slow oracle: all strings of one to three bytes, samples of four.
 */
#include "core/unicode/utf8.h"

#include <stdlib.h>

#include "core/base/rng.h"
#include "tests/support/check.h"

/* The oracle is a table of the encoding of each scalar value.  begins[n][bytes] is true if a valid
 * sequence longer than n begins with these n bytes. */
static uint8_t begins1[1 << 8], begins2[1 << 16], begins3[1 << 24];
static int32_t scalar_of1[1 << 8], *scalar_of2, *scalar_of3; /* plus one; 0: none */

static int spell(uint8_t out[4], uint32_t cp) {
    if (cp < 0x80) return out[0] = (uint8_t)cp, 1;
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xC0 + cp / 64), out[1] = (uint8_t)(0x80 + cp % 64);
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xE0 + cp / 4096), out[1] = (uint8_t)(0x80 + cp / 64 % 64);
        out[2] = (uint8_t)(0x80 + cp % 64);
        return 3;
    }
    out[0] = (uint8_t)(0xF0 + cp / 262144), out[1] = (uint8_t)(0x80 + cp / 4096 % 64);
    out[2] = (uint8_t)(0x80 + cp / 64 % 64), out[3] = (uint8_t)(0x80 + cp % 64);
    return 4;
}

static uint32_t two(const uint8_t *b) {
    return (uint32_t)b[0] << 8 | b[1];
}

static uint32_t three(const uint8_t *b) {
    return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
}

static void learn(void) {
    scalar_of2 = calloc(1 << 16, sizeof *scalar_of2);
    scalar_of3 = calloc(1 << 24, sizeof *scalar_of3);
    for (uint32_t cp = 0; cp <= SR_UTF8_LAST; cp++) {
        if (cp >= 0xD800 && cp < 0xE000) continue;
        uint8_t b[4];
        int n = spell(b, cp);
        if (n == 1) scalar_of1[b[0]] = (int32_t)cp + 1;
        if (n == 2) scalar_of2[two(b)] = (int32_t)cp + 1;
        if (n == 3) scalar_of3[three(b)] = (int32_t)cp + 1;
        if (n > 1) begins1[b[0]] = 1;
        if (n > 2) begins2[two(b)] = 1;
        if (n > 3) begins3[three(b)] = 1;
    }
}

/* Decodes the front of at most three bytes: the code point or -1, and its size in bytes.
 */
static int oracle(int32_t *cp, const uint8_t *b, size_t size) {
    *cp = scalar_of1[b[0]] - 1;
    if (*cp >= 0) return 1;
    if (size >= 2 && (*cp = scalar_of2[two(b)] - 1) >= 0) return 2;
    if (size >= 3 && (*cp = scalar_of3[three(b)] - 1) >= 0) return 3;
    if (size >= 3 && begins3[three(b)]) return 3;
    if (size >= 2 && begins2[two(b)]) return 2;
    return 1;
}

static bool same(const uint8_t *b, size_t size) {
    int32_t x, y;
    int n = oracle(&x, b, size), m = sr_utf8_decode(&y, b, size);
    return n == m && x == y;
}

static void all_short_strings(void) {
    long wrong = 0;
    for (uint32_t i = 0; i < 1 << 24; i++) {
        uint8_t b[3] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
        if ((i & 0xFFFF) == 0) wrong += !same(b, 1);
        if ((i & 0xFF) == 0) wrong += !same(b, 2);
        wrong += !same(b, 3);
    }
    CHECK(wrong == 0);
}

static void all_scalars(void) {
    long wrong = 0;
    for (uint32_t cp = 0; cp <= SR_UTF8_LAST; cp++) {
        if (cp >= 0xD800 && cp < 0xE000) continue;
        uint8_t b[4], c[4] = {0};
        int32_t back;
        int n = spell(b, cp), m = sr_utf8_encode(c, (int32_t)cp);
        wrong += n != m || memcmp(b, c, (size_t)n) != 0;
        wrong += sr_utf8_decode(&back, b, (size_t)n) != n || back != (int32_t)cp;
        wrong += sr_utf8_whole(b, (size_t)n) != (size_t)n;
        for (int cut = 1; cut < n; cut++) {
            size_t rest;
            wrong += sr_utf8_whole(b, (size_t)cut) != 0;
            wrong += sr_utf8_invalid(b, (size_t)cut, &rest) != 0 || rest != (size_t)cut;
            wrong += sr_utf8_invalid(b, (size_t)cut, NULL) != 1;
        }
    }
    CHECK(wrong == 0);
}

/* Four random bytes, probably a lead byte followed by trail bytes. */
static void sampled_four(void) {
    static const uint8_t leads[] = {0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8, 0xFF};
    static const uint8_t trails[] = {0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0};
    long wrong = 0;
    for (int i = 0; i < 8 * 8 * 8 * 8; i++) {
        uint8_t b[4] = {leads[i & 7], trails[i >> 3 & 7], trails[i >> 6 & 7], trails[i >> 9]};
        int32_t x, y;
        int n = oracle(&x, b, 3), m = sr_utf8_decode(&y, b, 4);
        bool whole = n == 3 && x < 0 && (b[3] & 0xC0) == 0x80;
        if (whole) n = 4, x = (b[0] & 7) << 18 | (b[1] & 63) << 12 | (b[2] & 63) << 6 | (b[3] & 63);
        wrong += n != m || x != y;
    }
    CHECK(wrong == 0);
}

/* Counting agrees with decoding, also when the text comes in two parts. */
static void counting(void) {
    long wrong = 0;
    for (uint32_t run = 0; run < 20000; run++) {
        uint8_t b[24];
        for (uint32_t i = 0; i < 24; i += 4) {
            sr_u32x4 r = sr_philox(sr_counter(i, 0, run, SR_PURPOSE_TENSOR, 0, 0, 0), 1, 10);
            for (uint32_t k = 0; k < 4; k++)
                b[i + k] = (uint8_t)(r.w[k] & 3 ? 0x80 | r.w[k] >> 8 : 'a');
        }
        size_t length = 0, invalid = 0, rest;
        for (size_t at = 0; at < sizeof b; length++) {
            int32_t cp;
            at += (size_t)sr_utf8_decode(&cp, b + at, sizeof b - at);
            invalid += cp < 0;
        }
        wrong += sr_utf8_length(b, sizeof b) != length;
        wrong += sr_utf8_invalid(b, sizeof b, NULL) != invalid;
        size_t cut = run % 25, first = sr_utf8_invalid(b, cut, &rest);
        wrong += first + sr_utf8_invalid(b + cut - rest, sizeof b - cut + rest, NULL) != invalid;
    }
    CHECK(wrong == 0);
}

int main(void) {
    learn();
    all_short_strings();
    all_scalars();
    sampled_four();
    counting();
    free(scalar_of2);
    free(scalar_of3);
    return CHECK_DONE();
}
