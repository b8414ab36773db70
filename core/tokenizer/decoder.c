#include "core/tokenizer/decoder.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/utf8.h"

/* ---- tokens ---- */

static sr_status append(sr_decoded *d, const char *text, size_t size) {
    size_t need;
    SR_TRY(sr_add_size(&need, d->size, size));
    if (need >= d->text_room) {
        SR_TRY(sr_grow(&d->text, 2 * need + 64));
        d->text_room = 2 * need + 64;
    }
    if (size > 0) memcpy(d->text + d->size, text, size);
    d->size = need;
    d->text[need] = '\0';
    return SR_OK;
}

static sr_status end_token(sr_decoded *d) {
    if (d->count == d->ends_room) {
        size_t room = 2 * d->ends_room + 64;
        SR_TRY(sr_grow(&d->ends, room));
        d->ends_room = room;
    }
    d->ends[d->count++] = d->size;
    return SR_OK;
}

sr_status sr_decoded_add(sr_decoded *d, const char *text, size_t size) {
    SR_TRY(append(d, text, size));
    return end_token(d);
}

void sr_decoded_free(sr_decoded *d) {
    sr_free(d->text);
    sr_free(d->ends);
    *d = (sr_decoded){0};
}

/* A token as a step sees it, and what the step writes to. */
typedef struct token {
    const char *text;
    size_t size, index, count;
    const sr_decoder_step *step;
    sr_matcher *matcher;
} token;

static bool begins(const token *t, size_t at, const char *text, size_t size) {
    return size > 0 && t->size - at >= size && memcmp(t->text + at, text, size) == 0;
}

/* ---- steps that change each token ---- */

/* Hugging Face's clean-up of a token: one rule after the other. */
static sr_status clean_up(sr_decoded *to, size_t first) {
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}, {NULL, NULL},
    };
    for (int i = 0; rules[i][0] != NULL; i++) {
        const char *from = rules[i][0], *by = rules[i][1];
        size_t size = strlen(from), shorter = strlen(by), end = first;
        for (size_t at = first; at < to->size;) {
            bool found = to->size - at >= size && memcmp(to->text + at, from, size) == 0;
            if (found) memcpy(to->text + end, by, shorter); /* never longer */
            if (!found) to->text[end] = to->text[at];
            end += found ? shorter : 1;
            at += found ? size : 1;
        }
        to->size = end;
        to->text[end] = '\0';
    }
    return SR_OK;
}

static sr_status wordpiece(sr_decoded *to, const token *t) {
    const sr_decoder_step *s = t->step;
    size_t first = to->size;
    bool goes_on = t->index > 0 && begins(t, 0, s->text, s->size);
    if (t->index > 0 && !goes_on) SR_TRY(append(to, " ", 1));
    size_t skip = goes_on ? s->size : 0;
    SR_TRY(append(to, t->text + skip, t->size - skip));
    return s->cleanup ? clean_up(to, first) : SR_OK;
}

/* Writes a token with `text` replaced by a space, or by nothing. */
static sr_status spaces(sr_decoded *to, const token *t, bool space) {
    const sr_decoder_step *s = t->step;
    for (size_t at = 0; at < t->size;) {
        bool found = begins(t, at, s->text, s->size);
        if (found && space) SR_TRY(append(to, " ", 1));
        if (!found) SR_TRY(append(to, t->text + at, 1));
        at += found ? s->size : 1;
    }
    return SR_OK;
}

static sr_status strip(sr_decoded *to, const token *t) {
    const sr_decoder_step *s = t->step;
    size_t first = 0, last = t->size;
    for (int64_t i = 0; i < s->start && begins(t, first, s->text, s->size); i++) first += s->size;
    for (int64_t i = 0; i < s->stop && last >= first + s->size &&
                        begins(t, last - s->size, s->text, s->size) && last <= t->size;
         i++)
        last -= s->size;
    return append(to, t->text + first, last - first);
}

static sr_status replace(sr_decoded *to, const token *t) {
    const uint8_t *bytes = (const uint8_t *)t->text;
    size_t done = 0, before = (size_t)-1, first, last;
    for (size_t from = 0; from <= t->size;) {
        bool found;
        SR_TRY(sr_pattern_next(t->step->pattern, t->matcher, bytes, t->size, from, before, &first,
                               &last, &found));
        if (!found) break;
        SR_TRY(append(to, t->text + done, first - done));
        SR_TRY(append(to, t->step->text, t->step->size));
        done = before = last;
        from = last;
        if (last == first) { /* not the same place again, nor inside a character */
            int32_t cp;
            from += last < t->size ? (size_t)sr_utf8_decode(&cp, bytes + last, t->size - last) : 1;
        }
    }
    return append(to, t->text + done, t->size - done);
}

static sr_status change(sr_decoded *to, const token *t) {
    switch (t->step->kind) {
    case SR_DECODE_WORDPIECE:
        return wordpiece(to, t);
    case SR_DECODE_METASPACE:
        return spaces(to, t, t->index > 0 || !t->step->first);
    case SR_DECODE_BPE:
        return spaces(to, t, t->index + 1 < t->count);
    case SR_DECODE_STRIP:
        return strip(to, t);
    case SR_DECODE_REPLACE:
        return replace(to, t);
    default:
        return append(to, t->text, t->size);
    }
}

/* ---- steps over all tokens ---- */

/* Writes bytes, with U+FFFD for what is not UTF-8; with `each`, for every byte if not all are. */
static sr_status put_bytes(sr_decoded *to, const uint8_t *bytes, size_t size, bool each) {
    bool whole = sr_utf8_invalid(bytes, size, NULL) == 0;
    for (size_t at = 0; at < size;) {
        int32_t cp;
        int step = sr_utf8_decode(&cp, bytes + at, size - at);
        bool bad = each ? !whole : cp < 0;
        if (bad)
            SR_TRY(append(to, "\xEF\xBF\xBD", 3));
        else
            SR_TRY(append(to, (const char *)bytes + at, (size_t)step));
        at += bad && each ? 1 : (size_t)step;
        if (each && !bad) continue;
    }
    return SR_OK;
}

/* The byte that a character of GPT-2's byte level encodes, -1: none. */
static int byte_of(int32_t cp) {
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xAC) || (cp >= 0xAE && cp <= 0xFF))
        return cp;
    if (cp < 256 || cp > 323) return -1;
    int n = cp - 256; /* the others in their order: 0..32, 127..160, 173 */
    return n <= 32 ? n : n <= 66 ? n - 33 + 127 : 173;
}

/* The bytes of a token, which takes `size` at most; a token with other characters is itself. */
static size_t bytes_of(uint8_t *out, const char *text, size_t size) {
    size_t count = 0;
    for (size_t at = 0; at < size;) {
        int32_t cp;
        at += (size_t)sr_utf8_decode(&cp, (const uint8_t *)text + at, size - at);
        int byte = cp < 0 ? -1 : byte_of(cp);
        if (byte < 0) {
            memcpy(out, text, size);
            return size;
        }
        out[count++] = (uint8_t)byte;
    }
    return count;
}

static sr_status byte_level(sr_decoded *to, const sr_decoded *from) {
    uint8_t *bytes;
    size_t count = 0, start = 0;
    SR_TRY(sr_new(&bytes, from->size + 1));
    for (size_t i = 0; i < from->count; start = from->ends[i++])
        count += bytes_of(bytes + count, from->text + start, from->ends[i] - start);
    sr_status st = put_bytes(to, bytes, count, false);
    sr_free(bytes);
    return st == SR_OK ? end_token(to) : st;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of a token such as <0x41>, -1: another token. */
static int fallback_byte(const char *text, size_t size) {
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static sr_status byte_fallback(sr_decoded *to, const sr_decoded *from) {
    uint8_t *bytes;
    size_t count = 0, start = 0;
    sr_status st = SR_OK;
    SR_TRY(sr_new(&bytes, from->count + 1));
    for (size_t i = 0; st == SR_OK && i < from->count; start = from->ends[i++]) {
        size_t size = from->ends[i] - start;
        int byte = fallback_byte(from->text + start, size);
        if (byte >= 0) bytes[count++] = (uint8_t)byte;
        bool flush = count > 0 && (byte < 0 || i + 1 == from->count);
        if (flush) st = put_bytes(to, bytes, count, true);
        if (flush && st == SR_OK) st = end_token(to);
        if (flush) count = 0;
        if (byte < 0 && st == SR_OK) st = sr_decoded_add(to, from->text + start, size);
    }
    sr_free(bytes);
    return st;
}

static sr_status each(sr_decoded *to, const sr_decoded *from, const sr_decoder_step *s) {
    sr_matcher matcher = {0};
    sr_status st = SR_OK;
    size_t start = 0;
    for (size_t i = 0; st == SR_OK && i < from->count; start = from->ends[i++]) {
        token t = {from->text + start, from->ends[i] - start, i, from->count, s, &matcher};
        st = change(to, &t);
        if (st == SR_OK) st = end_token(to);
    }
    sr_matcher_free(&matcher);
    return st;
}

static sr_status run_step(sr_decoded *to, const sr_decoded *from, const sr_decoder_step *s) {
    SR_TRY(append(to, "", 0));
    if (s->kind == SR_DECODE_BYTE_LEVEL) return byte_level(to, from);
    if (s->kind == SR_DECODE_BYTE_FALLBACK) return byte_fallback(to, from);
    if (s->kind == SR_DECODE_FUSE) return sr_decoded_add(to, from->text, from->size);
    return each(to, from, s);
}

/* Without a decoder. */
static sr_status join(sr_decoded *to, const sr_decoded *from) {
    size_t start = 0;
    SR_TRY(append(to, "", 0));
    for (size_t i = 0; i < from->count; start = from->ends[i++]) {
        if (i > 0) SR_TRY(append(to, " ", 1));
        SR_TRY(append(to, from->text + start, from->ends[i] - start));
    }
    return SR_OK;
}

sr_status sr_decoder_run(const sr_decoder *d, sr_decoded *tokens) {
    int steps = d->given ? d->count : 1;
    for (int i = 0; i < steps; i++) {
        sr_decoded next = {0};
        sr_status st = d->given ? run_step(&next, tokens, &d->steps[i]) : join(&next, tokens);
        sr_decoded before = *tokens;
        *tokens = next;
        sr_decoded_free(&before);
        if (st != SR_OK) return st;
    }
    return SR_OK;
}

/* ---- reading ---- */

static sr_status read_metaspace(sr_decoder_step *s, const sr_json *at) {
    static const char *const schemes[] = {"always", "never", "first", NULL};
    int scheme = 0;
    SR_TRY(sr_json_copy(&s->text, &s->size, at, "replacement"));
    sr_json given = sr_json_key(at, "prepend_scheme");
    if (!sr_json_absent(&given)) SR_TRY(sr_json_choice(&scheme, at, "prepend_scheme", schemes));
    bool prefix;
    SR_TRY(sr_json_bool(&prefix, at, "add_prefix_space", scheme != 1));
    s->first = prefix;
    return SR_OK;
}

static sr_status read_strip(sr_decoder_step *s, const sr_json *at) {
    SR_TRY(sr_json_copy(&s->text, &s->size, at, "content"));
    SR_TRY(sr_json_integer(&s->start, at, "start", 0, INT32_MAX));
    return sr_json_integer(&s->stop, at, "stop", 0, INT32_MAX);
}

static sr_status read_replace(sr_decoder_step *s, const sr_json *at) {
    sr_json pattern = sr_json_key(at, "pattern");
    SR_TRY(sr_pattern_read(&s->pattern, &pattern));
    return sr_json_copy(&s->text, &s->size, at, "content");
}

static sr_status read_step(void *into, const sr_json *at, int kind) {
    sr_decoder *d = into;
    if (d->count == SR_DECODER_STEPS)
        return sr_json_refuse(at, "is one of more than %d steps", SR_DECODER_STEPS);
    sr_decoder_step *s = &d->steps[d->count++];
    s->kind = (sr_decoder_kind)kind;
    switch (s->kind) {
    case SR_DECODE_WORDPIECE:
        SR_TRY(sr_json_bool(&s->cleanup, at, "cleanup", true));
        return sr_json_copy(&s->text, &s->size, at, "prefix");
    case SR_DECODE_METASPACE:
        return read_metaspace(s, at);
    case SR_DECODE_BPE:
        return sr_json_copy(&s->text, &s->size, at, "suffix");
    case SR_DECODE_STRIP:
        return read_strip(s, at);
    case SR_DECODE_REPLACE:
        return read_replace(s, at);
    default:
        return SR_OK;
    }
}

sr_status sr_decoder_read(sr_decoder *d, const sr_json *at) {
    static const char *const kinds[] = {"ByteLevel",    "WordPiece", "Metaspace", "BPEDecoder",
                                        "ByteFallback", "Fuse",      "Strip",     "Replace",
                                        "Sequence",     NULL};
    d->given = !sr_json_absent(at);
    return d->given ? sr_json_steps(at, kinds, "decoders", read_step, d) : SR_OK;
}

void sr_decoder_free(sr_decoder *d) {
    for (int i = 0; i < d->count; i++) {
        sr_free(d->steps[i].text);
        sr_pattern_free(d->steps[i].pattern);
    }
    d->count = 0;
}
