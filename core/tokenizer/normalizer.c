#include "core/tokenizer/normalizer.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/tokenizer/pieces.h"
#include "core/unicode/chars.h"
#include "core/unicode/classes.h"
#include "core/unicode/normal_form.h"
#include "core/unicode/utf8.h"

/* What a step works with: it reads `in` and, unless it leaves it as it is, fills `out`. */
typedef struct work {
    sr_run *in, *out;
    sr_matcher *matcher;
    sr_changes *changes;
    bool changed; /* `out` has the result */
} work;

/* Calls a step for each character that the run has, as a loop: cp, at, next. */
#define EACH(run, cp, at, next)                                                                    \
    for (size_t at = 0, next = 0;                                                                  \
         at < (run)->size &&                                                                       \
         (next = at + (size_t)sr_utf8_decode(&(cp), (run)->bytes + at, (run)->size - at)) > 0;     \
         at = next)

static bool is_ascii(const sr_run *r) {
    uint8_t all = 0;
    for (size_t i = 0; i < r->size; i++) all |= r->bytes[i];
    return all < 0x80;
}

/* Makes the result of a step the text of the next one. */
static void turn(work *w) {
    if (!w->changed) return;
    sr_run *in = w->in;
    w->in = w->out, w->out = in;
    sr_run_clear(w->out, w->in->aligned);
    w->changed = false;
}

/* ---- one character to some ---- */

static sr_status change(work *w, size_t removed) {
    w->changed = true;
    return sr_run_change(w->out, w->in, w->changes, removed);
}

static sr_status add_lower(sr_changes *c, int32_t cp) {
    int32_t low[2];
    int count = sr_char_lower(low, cp);
    for (int i = 0; i < count; i++) SR_TRY(sr_changes_add(c, low[i], i > 0));
    return SR_OK;
}

static sr_status lowercase(work *w) {
    int32_t cp;
    if (is_ascii(w->in)) {
        for (size_t i = 0; i < w->in->size; i++) {
            uint8_t byte = w->in->bytes[i];
            if (byte >= 'A' && byte <= 'Z') w->in->bytes[i] = byte | 0x20;
        }
        return SR_OK;
    }
    w->changes->count = 0;
    EACH(w->in, cp, at, next) SR_TRY(add_lower(w->changes, cp));
    return change(w, 0);
}

/* Keeps the characters for which `keeps` is true. */
static sr_status filter(work *w, bool (*keeps)(int32_t cp)) {
    int32_t cp;
    size_t leading = 0;
    sr_changes *c = w->changes;
    c->count = 0;
    EACH(w->in, cp, at, next) {
        if (keeps(cp))
            SR_TRY(sr_changes_add(c, cp, 0));
        else if (c->count > 0)
            c->list[c->count - 1].change--;
        else
            leading++;
    }
    return change(w, leading);
}

static bool is_no_mark(int32_t cp) {
    return (sr_class_of(cp) & SR_CLASS_MARK) == 0;
}

static bool is_no_accent(int32_t cp) {
    sr_char_part parts[SR_CHAR_PARTS];
    if (cp < 0x300) return true;
    sr_char_decompose(parts, cp, false);
    return !parts[0].mark;
}

static bool is_clean(int32_t cp) {
    return sr_char_kind_of(cp) != SR_CHAR_CONTROL;
}

/* ---- BERT ---- */

/* Drops control characters; white space becomes spaces. */
static sr_status clean(work *w) {
    SR_TRY(filter(w, is_clean));
    turn(w);
    int32_t cp;
    w->changes->count = 0;
    EACH(w->in, cp, at, next) {
        bool space = (sr_class_of(cp) & SR_CLASS_SPACE) != 0;
        SR_TRY(sr_changes_add(w->changes, space ? ' ' : cp, 0));
    }
    return change(w, 0);
}

static sr_status space_chinese(work *w) {
    int32_t cp;
    w->changes->count = 0;
    EACH(w->in, cp, at, next) {
        bool chinese = sr_char_is_cjk(cp);
        if (chinese) SR_TRY(sr_changes_add(w->changes, ' ', 0));
        SR_TRY(sr_changes_add(w->changes, cp, chinese));
        if (chinese) SR_TRY(sr_changes_add(w->changes, ' ', 1));
    }
    return change(w, 0);
}

static sr_status bert(work *w, const sr_normal_step *s) {
    if (s->clean) SR_TRY(clean(w));
    turn(w);
    if (s->chinese) SR_TRY(space_chinese(w));
    turn(w);
    if (s->accents) {
        w->changes->count = 0;
        SR_TRY(sr_normal_form(w->changes, w->in, false, false));
        SR_TRY(change(w, 0));
        turn(w);
        SR_TRY(filter(w, is_no_accent));
        turn(w);
    }
    return s->lower ? lowercase(w) : SR_OK;
}

/* ---- normal forms ---- */

static bool is_stable(const sr_run *r, int form) {
    if (is_ascii(r)) return true;
    int32_t cp;
    EACH(r, cp, at, next) {
        if (cp >= (int32_t)sizeof sr_stable || (sr_stable[cp] & form) == 0) return false;
    }
    return true;
}

static sr_status normal_form(work *w, int form) {
    if (is_stable(w->in, form)) return SR_OK;
    w->changes->count = 0;
    bool compat = (form & (SR_STABLE_NFKC | SR_STABLE_NFKD)) != 0;
    bool compose = (form & (SR_STABLE_NFC | SR_STABLE_NFKC)) != 0;
    SR_TRY(sr_normal_form(w->changes, w->in, compat, compose));
    return change(w, 0);
}

/* ---- Strip, Replace, Prepend ---- */

static bool is_space_at(const sr_run *r, size_t at) {
    int32_t cp;
    sr_utf8_decode(&cp, r->bytes + at, r->size - at);
    return (sr_class_of(cp) & SR_CLASS_SPACE) != 0;
}

static sr_status strip(work *w, const sr_normal_step *s) {
    const sr_run *r = w->in;
    size_t first = 0, last = r->size;
    while (s->left && first < last && is_space_at(r, first)) {
        first++;
        while (first < last && (r->bytes[first] & 0xC0) == 0x80) first++;
    }
    while (s->right && last > first) {
        size_t at = last - 1;
        while (at > first && (r->bytes[at] & 0xC0) == 0x80) at--;
        if (!is_space_at(r, at)) break;
        last = at;
    }
    if (first == 0 && last == r->size) return SR_OK;
    w->changed = true;
    return sr_run_copy(w->out, r, first, last);
}

/* Replaces one byte by up to four, as Replace mostly does, with places. */
static void replace_aligned(sr_run *out, const sr_run *in, uint8_t byte, const void *text,
                            size_t length) {
    for (size_t i = 0; i < in->size; i++) {
        bool found = in->bytes[i] == byte;
        size_t step = found ? length : 1;
        memcpy(out->bytes + out->size, found ? text : &in->bytes[i], step);
        for (size_t n = 0; n < step; n++, out->size++)
            out->from[out->size] = in->from[i], out->to[out->size] = in->to[i];
    }
}

/* The same without them, eight bytes at a time: what is written too far is written over, or lies in
 * the SR_RUN_AFTER bytes after the run. */
static void replace_plain(sr_run *out, const sr_run *in, uint8_t byte, const void *text,
                          size_t length) {
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    const uint8_t *from = in->bytes, *end = from + in->size;
    uint8_t *to = out->bytes + out->size;
    uint32_t instead = 0;
    memcpy(&instead, text, length);
    while (end - from >= 8) {
        uint64_t eight;
        memcpy(&eight, from, 8);
        memcpy(to, &eight, 8);
        uint64_t other = eight ^ ones * byte;
        uint64_t found = (other - ones) & ~other & highs; /* its lowest bit is exact */
        if (found == 0) {
            from += 8, to += 8;
            continue;
        }
        size_t kept = (size_t)__builtin_ctzll(found) / 8;
        memcpy(to + kept, &instead, 4);
        from += kept + 1, to += kept + length;
    }
    for (; from < end; from++) {
        uint32_t four = *from == byte ? instead : *from;
        memcpy(to, &four, 4);
        to += *from == byte ? length : 1;
    }
    out->size = (size_t)(to - out->bytes);
}

static sr_status replace_short(work *w, const sr_normal_step *s, uint8_t byte) {
    size_t size;
    SR_TRY(sr_mul_size(&size, w->in->size, s->size > 1 ? s->size : 1));
    SR_TRY(sr_run_reserve(w->out, size));
    if (w->out->aligned)
        replace_aligned(w->out, w->in, byte, s->text, s->size);
    else
        replace_plain(w->out, w->in, byte, s->text, s->size);
    return SR_OK;
}

/* Replaces one byte by a text. */
static sr_status replace_byte(work *w, const sr_normal_step *s, uint8_t byte) {
    const sr_run *in = w->in;
    size_t done = 0;
    if (in->size == 0) return SR_OK;
    const uint8_t *found = memchr(in->bytes, byte, in->size);
    if (found == NULL) return SR_OK;
    w->changed = true;
    if (s->size <= 4) return replace_short(w, s, byte);
    for (; found != NULL; found = memchr(in->bytes + done, byte, in->size - done)) {
        size_t at = (size_t)(found - in->bytes);
        uint32_t from = in->aligned ? in->from[at] : 0, last = in->aligned ? in->to[at] : 0;
        SR_TRY(sr_run_copy(w->out, in, done, at));
        SR_TRY(sr_run_add(w->out, s->text, s->size, from, last));
        done = at + 1;
    }
    return sr_run_copy(w->out, in, done, in->size);
}

static sr_status replace(work *w, const sr_normal_step *s) {
    int byte = sr_pattern_byte(s->pattern);
    if (byte >= 0) return replace_byte(w, s, (uint8_t)byte);
    const sr_run *in = w->in;
    size_t done = 0, before = (size_t)-1;
    while (in->size > 0) {
        size_t first = 0, last = 0;
        bool found;
        SR_TRY(sr_pattern_next(s->pattern, w->matcher, in->bytes, in->size, done, before, &first,
                               &last, &found));
        if (!found) break;
        SR_TRY(sr_run_copy(w->out, in, done, first));
        size_t place = last > 0 ? last - 1 : 0;
        uint32_t from = in->aligned ? in->from[place] : 0;
        uint32_t to = !in->aligned ? 0 : last > 0 ? in->to[place] : from;
        SR_TRY(sr_run_add(w->out, s->text, s->size, from, to));
        done = before = last;
    }
    if (before == (size_t)-1) return SR_OK;
    w->changed = true;
    return sr_run_copy(w->out, in, done, in->size);
}

static sr_status prepend(work *w, const sr_normal_step *s) {
    const sr_run *in = w->in;
    if (in->size == 0) return SR_OK;
    uint32_t from = in->aligned ? in->from[0] : 0, to = in->aligned ? in->to[0] : 0;
    SR_TRY(sr_run_add(w->out, s->text, s->size, from, to));
    w->changed = true;
    return sr_run_copy(w->out, in, 0, in->size);
}

/* ---- all ---- */

static sr_status apply(work *w, const sr_normal_step *s) {
    static const int forms[] = {[SR_NORMAL_NFC] = SR_STABLE_NFC,
                                [SR_NORMAL_NFD] = SR_STABLE_NFD,
                                [SR_NORMAL_NFKC] = SR_STABLE_NFKC,
                                [SR_NORMAL_NFKD] = SR_STABLE_NFKD};
    switch (s->kind) {
    case SR_NORMAL_BERT:
        return bert(w, s);
    case SR_NORMAL_LOWERCASE:
        return lowercase(w);
    case SR_NORMAL_STRIP_ACCENTS:
        return is_ascii(w->in) ? SR_OK : filter(w, is_no_mark);
    case SR_NORMAL_STRIP:
        return strip(w, s);
    case SR_NORMAL_REPLACE:
        return replace(w, s);
    case SR_NORMAL_PREPEND:
        return prepend(w, s);
    case SR_NORMAL_PRECOMPILED:
        return sr_charsmap_apply(w->out, w->in, s->map, w->changes, &w->changed);
    default:
        return normal_form(w, forms[s->kind]);
    }
}

sr_status sr_normalize(sr_run *text, sr_run *other, const sr_normalizer *n, sr_matcher *matcher,
                       sr_changes *changes) {
    work w = {.in = text, .out = other, .matcher = matcher, .changes = changes};
    for (int i = 0; i < n->count; i++) {
        sr_run_clear(w.out, w.in->aligned);
        w.changed = false;
        SR_TRY(apply(&w, &n->steps[i]));
        turn(&w);
    }
    if (w.in != text) {
        sr_run swap = *text;
        *text = *other;
        *other = swap;
    }
    return SR_OK;
}

/* ---- reading ---- */

static sr_status read_text(sr_normal_step *s, const sr_json *at, const char *key) {
    SR_TRY(sr_json_copy(&s->text, &s->size, at, key));
    if (s->size <= SR_TOKENIZER_TOKEN_LIMIT) return SR_OK;
    return sr_json_refuse(at, "has a %s of %zu bytes; the maximum is %d", key, s->size,
                          SR_TOKENIZER_TOKEN_LIMIT);
}

static sr_status read_bert(sr_normal_step *s, const sr_json *at) {
    SR_TRY(sr_json_bool(&s->clean, at, "clean_text", true));
    SR_TRY(sr_json_bool(&s->chinese, at, "handle_chinese_chars", true));
    SR_TRY(sr_json_bool(&s->lower, at, "lowercase", true));
    return sr_json_bool(&s->accents, at, "strip_accents", s->lower);
}

static sr_status read_step(void *into, const sr_json *at, int kind) {
    sr_normalizer *n = into;
    if (n->count == SR_NORMAL_STEPS)
        return sr_json_refuse(at, "is one of more than %d steps", SR_NORMAL_STEPS);
    sr_normal_step *s = &n->steps[n->count++];
    s->kind = (sr_normal_kind)kind;
    if (kind == SR_NORMAL_BERT) return read_bert(s, at);
    if (kind == SR_NORMAL_STRIP) {
        SR_TRY(sr_json_bool(&s->left, at, "strip_left", true));
        return sr_json_bool(&s->right, at, "strip_right", true);
    }
    if (kind == SR_NORMAL_REPLACE) {
        sr_json pattern = sr_json_key(at, "pattern");
        SR_TRY(sr_pattern_read(&s->pattern, &pattern));
        return read_text(s, at, "content");
    }
    if (kind == SR_NORMAL_PREPEND) return read_text(s, at, "prepend");
    if (kind == SR_NORMAL_PRECOMPILED) {
        sr_json map = sr_json_key(at, "precompiled_charsmap");
        return sr_charsmap_read(&s->map, &map);
    }
    return SR_OK;
}

sr_status sr_normalizer_read(sr_normalizer *n, const sr_json *at) {
    static const char *const kinds[] = {
        "BertNormalizer", "NFC",          "NFD",   "NFKC",    "NFKD",
        "Lowercase",      "StripAccents", "Strip", "Replace", "Prepend",
        "Precompiled",    "Sequence",     NULL};
    sr_classes_init();
    return sr_json_absent(at) ? SR_OK : sr_json_steps(at, kinds, "normalizers", read_step, n);
}

bool sr_normalizer_marks(const sr_normalizer *n) {
    bool marks = false;
    for (int i = 0; i < n->count; i++) {
        const sr_normal_step *s = &n->steps[i];
        if (s->kind == SR_NORMAL_PREPEND) return false;
        marks |= s->kind == SR_NORMAL_REPLACE && sr_pattern_byte(s->pattern) == ' ' &&
                 s->size == 3 && memcmp(s->text, "\xE2\x96\x81", 3) == 0;
    }
    return marks;
}

void sr_normalizer_free(sr_normalizer *n) {
    for (int i = 0; i < n->count; i++) {
        sr_pattern_free(n->steps[i].pattern);
        sr_free(n->steps[i].text);
        sr_charsmap_free(n->steps[i].map);
    }
    n->count = 0;
}
