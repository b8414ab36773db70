#include "core/unicode/chars.h"

#include <stddef.h>
#include <utf8proc.h>

enum {
    HF_CONTROL = 1,  /* is (is not) a control character */
    HF_MARK = 2,     /* is (is not) Mn */
    HF_PUNCT = 4,    /* is (is not) P* */
    HF_WHOLE = 8,    /* has no canonical decomposition */
    HF_STARTER = 16, /* has combining class 0 */
    HF_COMPAT = 32,  /* has no compatibility decomposition */
};

typedef struct difference {
    int32_t first, last;
    int flags;
    int32_t lower; /* added to the code point; 0: as in utf8proc */
} difference;

static const difference differences[] = {
#include "core/unicode/hf_unicode.inc"
};

static const difference same = {0, 0, 0, 0};

static const difference *difference_of(int32_t cp) {
    size_t low = 0, high = sizeof differences / sizeof *differences;
    if (cp < differences[0].first) return &same;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (cp > differences[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == sizeof differences / sizeof *differences || cp < differences[low].first)
        return &same;
    return &differences[low];
}

static bool is_category(const utf8proc_property_t *p, int first, int last) {
    return p->category >= first && p->category <= last;
}

/* White_Space outside ASCII, without U+0085, which counts as a control character. */
static bool is_wide_space(int32_t cp) {
    return cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static sr_char_kind ascii_kind(int32_t cp) {
    if (cp == ' ' || cp == '\t' || cp == '\n' || cp == '\r') return SR_CHAR_SPACE;
    if (cp < ' ' || cp == 0x7F) return SR_CHAR_CONTROL;
    bool letter = (cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z');
    return letter ? SR_CHAR_LETTER : SR_CHAR_PUNCT;
}

sr_char_kind sr_char_kind_of(int32_t cp) {
    if (cp < 0x80) return ascii_kind(cp);
    const utf8proc_property_t *p = utf8proc_get_property(cp);
    int flags = difference_of(cp)->flags;
    bool control = p->category == UTF8PROC_CATEGORY_CC || p->category == UTF8PROC_CATEGORY_CF ||
                   p->category == UTF8PROC_CATEGORY_CO;
    if (control != ((flags & HF_CONTROL) != 0) || cp == 0xFFFD) return SR_CHAR_CONTROL;
    if (is_wide_space(cp)) return SR_CHAR_SPACE;
    bool punct = is_category(p, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
    return punct != ((flags & HF_PUNCT) != 0) ? SR_CHAR_PUNCT : SR_CHAR_LETTER;
}

bool sr_char_is_cjk(int32_t cp) {
    if (cp < 0x3400) return false;
    return cp <= 0x4DBF || (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0xF900 && cp <= 0xFAFF) ||
           (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B81F) ||
           (cp >= 0x2B920 && cp <= 0x2CEAF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

static sr_char_part part_of(int32_t cp) {
    if (cp < 0x300) return (sr_char_part){cp, 0, false};
    const utf8proc_property_t *p = utf8proc_get_property(cp);
    int flags = difference_of(cp)->flags;
    bool mn = p->category == UTF8PROC_CATEGORY_MN;
    return (sr_char_part){
        .cp = cp,
        .combining = (flags & HF_STARTER) != 0 ? 0 : (uint8_t)p->combining_class,
        .mark = mn != ((flags & HF_MARK) != 0),
    };
}

int sr_char_decompose(sr_char_part out[SR_CHAR_PARTS], int32_t cp, bool compat) {
    int whole = compat ? HF_WHOLE | HF_COMPAT : HF_WHOLE;
    if (cp < (compat ? 0xA0 : 0xC0) || (difference_of(cp)->flags & whole) != 0) {
        out[0] = part_of(cp);
        return 1;
    }
    int32_t parts[SR_CHAR_PARTS] = {cp};
    int boundary = 0, options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (compat) options |= UTF8PROC_COMPAT;
    int count = (int)utf8proc_decompose_char(cp, parts, SR_CHAR_PARTS, (utf8proc_option_t)options,
                                             &boundary);
    for (int i = 0; i < count; i++) out[i] = part_of(parts[i]);
    return count;
}

int32_t sr_char_compose(int32_t first, int32_t second) {
    int32_t pair[2] = {first, second};
    if (first < 0x80 && (first < '<' || first > 'z')) return -1;
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1) return -1;
    return (difference_of(pair[0])->flags & HF_WHOLE) != 0 ? -1 : pair[0];
}

int sr_char_lower(int32_t out[2], int32_t cp) {
    out[0] = cp;
    if (cp < 0x80) {
        if (cp >= 'A' && cp <= 'Z') out[0] = cp + 32;
        return 1;
    }
    if (cp == 0x130) {
        out[0] = 'i', out[1] = 0x307;
        return 2;
    }
    int32_t away = difference_of(cp)->lower;
    out[0] = away != 0 ? cp + away : utf8proc_tolower(cp);
    return 1;
}

static bool has_bound(int32_t cp, int bound) {
    return (int)utf8proc_get_property(cp)->boundclass == bound;
}

bool sr_char_is_break(int32_t cp) {
    return cp < 0x20 || has_bound(cp, UTF8PROC_BOUNDCLASS_CONTROL);
}

bool sr_char_is_prepend(int32_t cp) {
    return cp >= 0x600 && has_bound(cp, UTF8PROC_BOUNDCLASS_PREPEND);
}

bool sr_char_is_pictographic(int32_t cp) {
    return has_bound(cp, UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC);
}

bool sr_char_is_capital(int32_t cp) {
    if (cp < 0x80) return cp >= 'A' && cp <= 'Z';
    int category = utf8proc_get_property(cp)->category;
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
}

bool sr_char_is_digit(int32_t cp) {
    if (cp < 0x80) return cp >= '0' && cp <= '9';
    return utf8proc_get_property(cp)->category == UTF8PROC_CATEGORY_ND;
}

bool sr_char_is_alphabetic(int32_t cp) {
    if (cp < 0x80) return (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z');
    return is_category(utf8proc_get_property(cp), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}
