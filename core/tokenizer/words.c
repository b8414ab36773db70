#include "core/tokenizer/words.h"

#include "core/unicode/chars.h"
#include "core/unicode/utf8.h"

/* A combining mark, buffered until its run ends, since NFD sorts a run by class. */
typedef struct waiting {
    int32_t cp;
    uint8_t class;
    bool dropped;  /* an accent: takes part in sorting, then dropped */
    bool inserted; /* not the first part of its code point: has no position of its own */
} waiting;

/* One pass over a span.  A run buffers as many marks as can matter: more kept marks make the word
 * [UNK], more dropped ones could only affect offsets. */
typedef struct walk {
    const sr_words_opts *opts;
    sr_word_sink sink;
    void *context;
    sr_text_span here; /* the code point being read */
    waiting run[2 * SR_WORD_CHARS];
    sr_text_span places[2 * SR_WORD_CHARS]; /* of the run, in the order of the text */
    size_t run_count, run_kept, place_count;
    sr_text_span before;        /* the starter that the run follows */
    int32_t cps[SR_WORD_CHARS]; /* the current word, before it is encoded as UTF-8 */
    sr_word word;
} walk;

static sr_status finish_word(walk *w) {
    sr_word *word = &w->word;
    if (word->chars == 0) return SR_OK;
    size_t kept = word->chars < SR_WORD_CHARS ? word->chars : SR_WORD_CHARS;
    word->size = 0;
    for (size_t i = 0; i < kept; i++) {
        word->at[i] = (uint16_t)word->size;
        word->size += (size_t)sr_utf8_encode(word->bytes + word->size, w->cps[i]);
    }
    word->at[kept] = (uint16_t)word->size;
    word->whole.byte_first = word->spans[0].byte_first;
    word->whole.char_first = word->spans[0].char_first;
    sr_status st = w->sink(w->context, word);
    word->chars = 0;
    return st;
}

/* Appends a code point that originates from `place`. */
static void add_char(walk *w, int32_t cp, const sr_text_span *place) {
    sr_word *word = &w->word;
    size_t i = word->chars++;
    word->whole.byte_last = place->byte_last;
    word->whole.char_last = place->char_last;
    if (i >= SR_WORD_CHARS) return;
    w->cps[i] = cp;
    word->spans[i] = *place;
}

static sr_status add_kind(walk *w, int32_t cp, sr_char_kind kind, const sr_text_span *place) {
    if (kind == SR_CHAR_SPACE) return finish_word(w);
    if (kind != SR_CHAR_PUNCT) {
        add_char(w, cp, place);
        return SR_OK;
    }
    SR_TRY(finish_word(w));
    add_char(w, cp, place);
    return finish_word(w);
}

/* Lower-cases a code point and adds it; `kind` is the kind of cp itself. */
static sr_status add_cased(walk *w, int32_t cp, sr_char_kind kind, const sr_text_span *place) {
    if (!w->opts->lowercase) return add_kind(w, cp, kind, place);
    int32_t low[2];
    int count = sr_char_lower(low, cp);
    if (count == 1 && low[0] == cp) return add_kind(w, cp, kind, place);
    for (int i = 0; i < count; i++) SR_TRY(add_kind(w, low[i], sr_char_kind_of(low[i]), place));
    return SR_OK;
}

/* ---- runs of marks, when accents are stripped ---- */

/* Stable, by class. */
static void sort_run(waiting *run, size_t count) {
    for (size_t i = 1; i < count; i++) {
        waiting one = run[i];
        size_t at = i;
        for (; at > 0 && run[at - 1].class > one.class; at--) run[at] = run[at - 1];
        run[at] = one;
    }
}

/* Ends a run.  Marks are sorted but positions are not: the first mark in the new order gets the
 * position of the first one in the text, as in Hugging Face's offsets. */
static sr_status finish_run(walk *w) {
    size_t count = w->run_count, kept = w->run_kept, next = 0;
    w->run_count = w->run_kept = w->place_count = 0;
    if (kept == 0) return SR_OK;
    sort_run(w->run, count);
    const sr_text_span *place = &w->before;
    for (size_t i = 0; i < count; i++) {
        const waiting *one = &w->run[i];
        if (!one->inserted) place = &w->places[next++];
        if (one->dropped) continue;
        SR_TRY(add_cased(w, one->cp, sr_char_kind_of(one->cp), place));
    }
    return SR_OK;
}

static void add_mark(walk *w, const sr_char_part *p, bool inserted) {
    size_t dropped = w->run_count - w->run_kept;
    if ((p->mark ? dropped : w->run_kept) >= SR_WORD_CHARS) {
        if (!p->mark) w->word.chars += SR_WORD_CHARS; /* [UNK], regardless of what follows */
        return;
    }
    if (!inserted) w->places[w->place_count++] = w->here;
    w->run[w->run_count++] = (waiting){p->cp, p->combining, p->mark, inserted};
    if (!p->mark) w->run_kept++;
}

static sr_status add_stripped(walk *w, int32_t cp, sr_char_kind kind) {
    sr_char_part parts[SR_CHAR_PARTS];
    int count = sr_char_decompose(parts, cp, false);
    for (int i = 0; i < count; i++) {
        const sr_char_part *p = &parts[i];
        if (p->combining != 0) {
            add_mark(w, p, i > 0);
            continue;
        }
        if (w->run_count > 0) SR_TRY(finish_run(w));
        w->before = w->here;
        if (p->mark) continue;
        SR_TRY(add_cased(w, p->cp, p->cp == cp ? kind : sr_char_kind_of(p->cp), &w->here));
    }
    return SR_OK;
}

/* A CJK character acts as if between spaces, and a space ends a run. */
static sr_status finish_both(walk *w) {
    SR_TRY(finish_run(w));
    return finish_word(w);
}

static sr_status add_wide(walk *w, int32_t cp, sr_char_kind kind) {
    bool alone = sr_char_is_cjk(cp);
    if (alone) SR_TRY(finish_both(w));
    if (w->opts->strip_accents)
        SR_TRY(add_stripped(w, cp, kind));
    else
        SR_TRY(add_cased(w, cp, kind, &w->here));
    return alone ? finish_both(w) : SR_OK;
}

static sr_status add(walk *w, int32_t cp) {
    sr_char_kind kind = sr_char_kind_of(cp);
    if (kind == SR_CHAR_CONTROL) return SR_OK;
    if (cp >= 0x80) return add_wide(w, cp, kind);
    if (w->run_count > 0) SR_TRY(finish_run(w));
    w->before = w->here;
    return add_cased(w, cp, kind, &w->here);
}

sr_status sr_words(sr_words_at *at, const uint8_t *bytes, size_t size, const sr_words_opts *opts,
                   sr_word_sink sink, void *context) {
    walk w;
    w.opts = opts, w.sink = sink, w.context = context;
    w.run_count = w.run_kept = w.place_count = 0;
    w.before = (sr_text_span){at->byte, at->byte, at->chars, at->chars};
    w.word.chars = 0;
    for (size_t i = 0; i < size;) {
        int32_t cp;
        int length = sr_utf8_decode(&cp, bytes + i, size - i);
        w.here = (sr_text_span){at->byte, at->byte + (uint32_t)length, at->chars, at->chars + 1};
        if (cp >= 0)
            SR_TRY(add(&w, cp));
        else
            at->invalid++;
        i += (size_t)length;
        at->byte += (uint32_t)length;
        at->chars++;
    }
    return finish_both(&w);
}
