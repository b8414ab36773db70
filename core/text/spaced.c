#include "core/text/spaced.h"

#include <emmintrin.h>
#include <stdbool.h>

#include "core/unicode/chars.h"
#include "core/unicode/utf8.h"

enum { STEP = 16 };

static __m128i load(const uint8_t *bytes) {
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* A bit for each of 16 bytes that equals `byte`. */
static unsigned equal(__m128i some, char byte) {
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(some, _mm_set1_epi8(byte)));
}

/* A bit for each byte below 0x21 (space and controls) or above 0x7F. */
static unsigned unusual(__m128i some) {
    return (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(some, _mm_set1_epi8(0x21)));
}

/* The number of bits of 16. */
static size_t bits(unsigned x) {
    x = x - (x >> 1 & 0x5555);
    x = (x & 0x3333) + (x >> 2 & 0x3333);
    x = (x + (x >> 4)) & 0x0F0F;
    return (x + (x >> 8)) & 0x1F;
}

static bool is_space(int32_t cp) {
    return cp == '\v' || cp == '\f' || cp == 0x85 ||
           (cp >= 0 && sr_char_kind_of(cp) == SR_CHAR_SPACE);
}

size_t sr_spaced_words(const uint8_t *bytes, size_t size) {
    size_t words = 0, at = 0;
    unsigned inside = 0; /* 1: the byte before belongs to a word */
    while (at < size) {
        if (at + STEP <= size) {
            __m128i some = load(bytes + at);
            unsigned space = equal(some, ' ');
            if (space == unusual(some)) { /* nothing else needs a closer look */
                unsigned plain = ~space & 0xFFFF;
                words += bits(plain & ~(plain << 1 | inside));
                inside = plain >> 15;
                at += STEP;
                continue;
            }
        }
        int32_t cp;
        at += (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
        unsigned now = !is_space(cp);
        words += now & ~inside;
        inside = now;
    }
    return words;
}

size_t sr_spaced_stop(const uint8_t *bytes, size_t at, size_t size) {
    for (; at < size; at += STEP) {
        __m128i some = load(bytes + at);
        unsigned found = equal(some, '.') | equal(some, '!') | equal(some, '?');
        if (size - at < STEP) found &= (1u << (size - at)) - 1; /* the bytes beyond are undefined */
        if (found != 0) return at + (size_t)__builtin_ctz(found);
    }
    return size;
}
