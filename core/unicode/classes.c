#include "core/unicode/classes.h"

#include <pthread.h>
#include <string.h>

#include "core/unicode/chars.h"

#include "core/unicode/hf_classes.inc"

const char *const sr_categories[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                     "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                     "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn", NULL};

enum {
    BLOCKS = 512,
    CLASS_STEPS = sizeof class_steps / sizeof *class_steps,
    CATEGORY_STEPS = sizeof category_steps / sizeof *category_steps
};

uint16_t sr_class_index[0x110000 >> 8];
static uint8_t blocks[BLOCKS][256];
uint8_t (*sr_class_blocks)[256] = blocks;
uint8_t sr_stable[0x3000];

/* Equal blocks are kept once. */
static void build_classes(void) {
    uint8_t block[256];
    int count = 0, step = 0;
    for (int32_t cp = 0; cp < 0x110000; cp++) {
        while (step + 1 < CLASS_STEPS && class_steps[step + 1] >> 8 <= (uint32_t)cp) step++;
        block[cp & 255] = (uint8_t)class_steps[step];
        if ((cp & 255) != 255) continue;
        int n = 0;
        while (n < count && memcmp(blocks[n], block, 256) != 0) n++;
        if (n == count && count < BLOCKS) memcpy(blocks[count++], block, 256);
        sr_class_index[cp >> 8] = (uint16_t)n;
    }
}

/* Whether the parts of a code point compose to it again, or it has one part. */
static bool is_stable(int32_t cp, bool compat, bool compose) {
    sr_char_part parts[SR_CHAR_PARTS];
    int count = sr_char_decompose(parts, cp, compat);
    if (count == 1) return parts[0].cp == cp && parts[0].combining == 0;
    if (!compose || parts[0].combining != 0) return false;
    int32_t whole = parts[0].cp;
    for (int i = 1; i < count && whole >= 0; i++) whole = sr_char_compose(whole, parts[i].cp);
    return whole == cp;
}

static void build_stable(void) {
    for (int32_t cp = 0; cp < (int32_t)sizeof sr_stable; cp++) {
        if ((sr_class_of(cp) & SR_CLASS_MARK) != 0 || (cp >= 0x1100 && cp < 0x1200)) continue;
        sr_stable[cp] = (uint8_t)((is_stable(cp, false, true) ? SR_STABLE_NFC : 0) |
                                  (is_stable(cp, false, false) ? SR_STABLE_NFD : 0) |
                                  (is_stable(cp, true, true) ? SR_STABLE_NFKC : 0) |
                                  (is_stable(cp, true, false) ? SR_STABLE_NFKD : 0));
    }
}

static void build(void) {
    build_classes();
    build_stable();
}

void sr_classes_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build);
}

/* Whether the value of a step is wanted. */
typedef bool (*wanted)(uint32_t value, uint32_t mask);

static bool has_bit(uint32_t value, uint32_t mask) {
    return (mask >> value & 1) != 0;
}

static bool has_class(uint32_t value, uint32_t mask) {
    return (value & mask) != 0;
}

static void ranges(const uint32_t *steps, int count, wanted is, uint32_t mask, sr_class_range range,
                   void *context) {
    int32_t first = -1;
    for (int i = 0; i < count; i++) {
        bool in = is(steps[i] & 255, mask);
        int32_t cp = (int32_t)(steps[i] >> 8);
        if (in && first < 0) first = cp;
        if (!in && first >= 0) {
            range(context, first, cp - 1);
            first = -1;
        }
    }
    if (first >= 0) range(context, first, 0x10FFFF);
}

void sr_category_ranges(uint32_t mask, sr_class_range range, void *context) {
    ranges(category_steps, CATEGORY_STEPS, has_bit, mask, range, context);
}

void sr_class_ranges(int classes, sr_class_range range, void *context) {
    ranges(class_steps, CLASS_STEPS, has_class, (uint32_t)classes, range, context);
}
