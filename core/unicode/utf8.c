#include "core/unicode/utf8.h"

#include <string.h>

/* The number of bytes after a lead byte, and the range of the first of them (which excludes
 * overlong forms, surrogates and values above U+10FFFF). */
typedef struct lead {
    uint8_t follow, least, most;
} lead;

static lead lead_of(uint8_t byte) {
    if (byte >= 0xC2 && byte <= 0xDF) return (lead){1, 0x80, 0xBF};
    if (byte >= 0xE0 && byte <= 0xEF)
        return (lead){2, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    if (byte >= 0xF0 && byte <= 0xF4)
        return (lead){3, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
    return (lead){0, 1, 0};
}

/* Like sr_utf8_decode(); sets *cut if more bytes could complete an invalid sequence. */
static int decode(int32_t *cp, const uint8_t *bytes, size_t size, bool *cut) {
    *cut = false;
    uint8_t first = bytes[0];
    if (first < 0x80) {
        *cp = first;
        return 1;
    }
    lead l = lead_of(first);
    int32_t value = first & (0x3F >> l.follow);
    *cp = -1;
    if (l.follow == 0) return 1;
    for (int i = 1; i <= l.follow; i++) {
        if ((size_t)i == size) {
            *cut = true;
            return i;
        }
        uint8_t least = i == 1 ? l.least : 0x80, most = i == 1 ? l.most : 0xBF;
        if (bytes[i] < least || bytes[i] > most) return i;
        value = value << 6 | (bytes[i] & 0x3F);
    }
    *cp = value;
    return l.follow + 1;
}

int sr_utf8_decode(int32_t *cp, const uint8_t *bytes, size_t size) {
    bool cut;
    return decode(cp, bytes, size, &cut);
}

int sr_utf8_encode(uint8_t out[4], int32_t cp) {
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    int follow = cp < 0x800 ? 1 : cp < 0x10000 ? 2 : 3;
    static const uint8_t marks[4] = {0, 0xC0, 0xE0, 0xF0};
    for (int i = follow; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (uint8_t)(marks[follow] | cp);
    return follow + 1;
}

/* The number of leading ASCII bytes, in steps of eight; may be up to 7 too low. */
static size_t ascii_run(const uint8_t *bytes, size_t size) {
    size_t n = 0;
    for (; n + 8 <= size; n += 8) {
        uint64_t word;
        memcpy(&word, bytes + n, 8);
        if ((word & 0x8080808080808080u) != 0) break;
    }
    return n;
}

size_t sr_utf8_length(const uint8_t *bytes, size_t size) {
    size_t count = 0;
    for (size_t at = 0; at < size;) {
        size_t ascii = ascii_run(bytes + at, size - at);
        at += ascii, count += ascii;
        if (at == size) break;
        int32_t cp;
        at += (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
        count++;
    }
    return count;
}

size_t sr_utf8_invalid(const uint8_t *bytes, size_t size, size_t *rest) {
    size_t count = 0;
    if (rest != NULL) *rest = 0;
    for (size_t at = 0; at < size;) {
        at += ascii_run(bytes + at, size - at);
        if (at == size) break;
        int32_t cp;
        bool cut;
        int length = decode(&cp, bytes + at, size - at, &cut);
        if (cut && rest != NULL) {
            *rest = size - at;
            return count;
        }
        at += (size_t)length;
        count += cp < 0;
    }
    return count;
}

size_t sr_utf8_whole(const uint8_t *bytes, size_t size) {
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        uint8_t byte = bytes[size - back];
        if (byte < 0x80) return size;
        if (byte >= 0xC0) return lead_of(byte).follow >= back ? size - back : size;
    }
    return size;
}
