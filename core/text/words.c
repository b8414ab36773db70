#include "core/text/words.h"

#include "core/text/chars.h"
#include "core/text/utf8.h"

/* One walk.  cps and classes are the word in the making, before it is written as UTF-8. */
typedef struct walk {
    const sr_words_opts *opts;
    sr_word_sink sink;
    void *context;
    sr_text_span here; /* the code point being read */
    int32_t cps[SR_WORD_CHARS];
    uint8_t classes[SR_WORD_CHARS];
    size_t run; /* index where the current run of marks begins */
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
    if (word->chars <= SR_WORD_CHARS) {
        word->whole.byte_last = word->spans[kept - 1].byte_last;
        word->whole.char_last = word->spans[kept - 1].char_last;
    }
    word->whole.byte_first = word->spans[0].byte_first;
    word->whole.char_first = word->spans[0].char_first;
    sr_status st = w->sink(w->context, word);
    word->chars = 0;
    w->run = 0;
    return st;
}

/* Appends a code point; one with a combining class moves before those of a higher class in its
 * run.  Beyond SR_WORD_CHARS only the count matters, since the word is [UNK] however it reads. */
static void add_char(walk *w, int32_t cp, uint8_t class) {
    sr_word *word = &w->word;
    size_t i = word->chars++;
    word->whole.byte_last = w->here.byte_last;
    word->whole.char_last = w->here.char_last;
    if (i >= SR_WORD_CHARS) return;
    if (class == 0) w->run = i + 1;
    for (; i > w->run && class != 0 && w->classes[i - 1] > class; i--) {
        w->cps[i] = w->cps[i - 1];
        w->classes[i] = w->classes[i - 1];
        word->spans[i] = word->spans[i - 1];
    }
    w->cps[i] = cp;
    w->classes[i] = class;
    word->spans[i] = w->here;
}

static sr_status add_kind(walk *w, int32_t cp, uint8_t class, sr_char_kind kind) {
    if (kind == SR_CHAR_SPACE) return finish_word(w);
    if (kind != SR_CHAR_PUNCT) {
        add_char(w, cp, class);
        return SR_OK;
    }
    SR_TRY(finish_word(w));
    add_char(w, cp, class);
    return finish_word(w);
}

/* Lower-cases a code point and adds it; `kind` is the kind of cp itself. */
static sr_status add_cased(walk *w, int32_t cp, uint8_t class, sr_char_kind kind) {
    if (!w->opts->lowercase) return add_kind(w, cp, class, kind);
    int32_t low[2];
    int count = sr_char_lower(low, cp);
    if (count == 1 && low[0] == cp) return add_kind(w, cp, class, kind);
    for (int i = 0; i < count; i++) SR_TRY(add_kind(w, low[i], class, sr_char_kind_of(low[i])));
    return SR_OK;
}

static sr_status add_stripped(walk *w, int32_t cp, sr_char_kind kind) {
    sr_char_part parts[SR_CHAR_PARTS];
    int count = sr_char_decompose(parts, cp);
    for (int i = 0; i < count; i++) {
        const sr_char_part *p = &parts[i];
        if (p->mark) {
            if (p->combining == 0) w->run = w->word.chars;
            continue;
        }
        SR_TRY(add_cased(w, p->cp, p->combining, p->cp == cp ? kind : sr_char_kind_of(p->cp)));
    }
    return SR_OK;
}

static sr_status add_wide(walk *w, int32_t cp, sr_char_kind kind) {
    bool alone = sr_char_is_cjk(cp);
    if (alone) SR_TRY(finish_word(w));
    if (w->opts->strip_accents)
        SR_TRY(add_stripped(w, cp, kind));
    else
        SR_TRY(add_cased(w, cp, 0, kind));
    return alone ? finish_word(w) : SR_OK;
}

static sr_status add(walk *w, int32_t cp) {
    sr_char_kind kind = sr_char_kind_of(cp);
    if (kind == SR_CHAR_CONTROL) return SR_OK;
    return cp < 0x80 ? add_cased(w, cp, 0, kind) : add_wide(w, cp, kind);
}

sr_status sr_words(sr_words_at *at, const uint8_t *bytes, size_t size, const sr_words_opts *opts,
                   sr_word_sink sink, void *context) {
    walk w;
    w.opts = opts, w.sink = sink, w.context = context;
    w.run = 0, w.word.chars = 0;
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
    return finish_word(&w);
}
