#include "core/text/sentence.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/chars.h"
#include "core/text/spaced.h"
#include "core/unicode/utf8.h"

enum { LISTED = 8 }; /* bytes of a listed word, with a zero byte */

/* Abbreviations after which a full stop does not end a sentence.  Those that often do end one
 * ("etc.", "Co.", "p.m.") are not listed. */
static const char abbreviations[][LISTED] = {
    "Mr",  "Mrs", "Ms",  "Messrs", "Mme",  "Mlle", "Dr",     "Prof", "Rev",   "Revd",
    "Hon", "St",  "Sr",  "Jr",     "Capt", "Col",  "Gen",    "Lt",   "Lieut", "Maj",
    "Sgt", "Cpl", "Adm", "Cmdr",   "Gov",  "Sen",  "Rep",    "Pres", "Mt",    "Ft",
    "vs",  "e.g", "i.e", "cf",     "viz",  "al",   "approx", "Bros", "Supt",  "Mss",
};

/* The same, but only before a digit: "No. 5", but "No. They left." */
static const char before_digits[][LISTED] = {
    "No",   "Nos", "no",  "nos", "Vol", "vol",  "vols", "p",   "pp",   "Fig", "fig", "Figs",
    "figs", "Sec", "sec", "Ch",  "ch",  "Chap", "chap", "Art", "art",  "Eq",  "eq",  "ca",
    "Jan",  "Feb", "Mar", "Apr", "Jun", "Jul",  "Aug",  "Sep", "Sept", "Oct", "Nov", "Dec",
};

typedef struct word_list {
    const char (*words)[LISTED];
    size_t count;
} word_list;

enum { ABBREVIATIONS, BEFORE_DIGITS, LISTS };

static const word_list lists[LISTS] = {
    {abbreviations, sizeof abbreviations / sizeof *abbreviations},
    {before_digits, sizeof before_digits / sizeof *before_digits},
};

struct sr_sentences {
    sr_source *source;
    sr_text_format format;
    size_t limit;
    uint8_t *text; /* the current sentence is [begin, end) */
    size_t begin, end, room;
    size_t scan;        /* no sentence ends before this position */
    bool continues;     /* only a part of the last line was read */
    bool line_blank;    /* so far */
    bool flush;         /* the remaining text is one complete sentence */
    bool document_ends; /* after it */
    bool in_document;   /* the document has returned a sentence */
    bool held, ended;   /* `line` was read but not used; end of input */
    sr_line line;
    uint8_t begins[256]; /* bit i: a word of list i begins with this byte */
    sr_sentences_counts counts;
};

sr_status sr_sentences_new(sr_sentences **out, sr_source *source, const sr_sentences_opts *opts) {
    *out = NULL;
    size_t limit = opts != NULL && opts->limit > 0 ? opts->limit : SR_SENTENCE_LIMIT;
    if (limit < 16 || limit > 1 << 30)
        return sr_fail(SR_EINVAL, "sentences: limit of %zu bytes; must be 16 to 2^30", limit);
    SR_TRY(sr_new(out, 1));
    (*out)->source = source;
    (*out)->format = opts != NULL ? opts->format : SR_TEXT_PROSE;
    (*out)->limit = limit;
    for (int list = 0; list < LISTS; list++)
        for (size_t i = 0; i < lists[list].count; i++)
            (*out)->begins[(uint8_t)lists[list].words[i][0]] |= (uint8_t)(1 << list);
    return SR_OK;
}

void sr_sentences_free(sr_sentences *s) {
    if (s == NULL) return;
    sr_free(s->text);
    sr_free(s);
}

sr_sentences_counts sr_sentences_count(const sr_sentences *s) {
    return s->counts;
}

/* ---- characters ---- */

/* Whether a byte is a character of its own, and not white space. */
static bool is_plain(uint8_t byte) {
    return byte > ' ' && byte < 0x7F;
}

static bool is_space(int32_t cp) {
    if (cp >= ' ' && cp < 0x7F) return cp == ' ';
    return cp == '\v' || cp == '\f' || (cp >= 0 && sr_char_kind_of(cp) == SR_CHAR_SPACE);
}

/* ' and " both open and close; U+201C..U+201F and the like come in pairs. */
static bool closes(int32_t cp) {
    return cp == '\'' || cp == '"' || cp == ')' || cp == ']' || cp == '}' || cp == 0x2019 ||
           cp == 0x201D || cp == 0xBB || cp == 0x203A;
}

static bool opens_quote(int32_t cp) {
    return cp == '\'' || cp == '"' || cp == '`' || cp == 0x2018 || cp == 0x201A || cp == 0x201B ||
           cp == 0x201C || cp == 0x201E || cp == 0x201F || cp == 0xAB || cp == 0x2039;
}

static bool is_stop(uint8_t byte) {
    return byte == '.' || byte == '!' || byte == '?';
}

/* The code point at `at`, -1 at the end and for invalid UTF-8; *length is its size. */
static int32_t peek(const sr_sentences *s, size_t at, size_t *length) {
    int32_t cp = -1;
    *length = 0;
    if (at >= s->end) return cp;
    *length = 1;
    if (s->text[at] < 0x80) return s->text[at];
    *length = (size_t)sr_utf8_decode(&cp, s->text + at, s->end - at);
    return cp;
}

static size_t skip_space(const sr_sentences *s, size_t at) {
    size_t length;
    while (is_space(peek(s, at, &length))) at += length;
    return at;
}

/* The end of [first, last) without trailing white space. */
static size_t trim(const sr_sentences *s, size_t first, size_t last) {
    while (last > first && (s->text[last - 1] == ' ' || s->text[last - 1] == '\r')) last--;
    while (last > first && !is_plain(s->text[last - 1])) {
        size_t start = last - 1;
        while (start > first && (s->text[start] & 0xC0) == 0x80 && last - start < 4) start--;
        int32_t cp;
        if ((size_t)sr_utf8_decode(&cp, s->text + start, last - start) != last - start) break;
        if (!is_space(cp)) break;
        last = start;
    }
    return last;
}

/* ---- where a sentence ends ---- */

static bool is_listed(const sr_sentences *s, int list, const uint8_t *word, size_t size) {
    char wanted[LISTED] = {0};
    if (size >= LISTED || (s->begins[word[0]] >> list & 1) == 0) return false;
    memcpy(wanted, word, size);
    for (size_t i = 0; i < lists[list].count; i++)
        if (memcmp(lists[list].words[i], wanted, LISTED) == 0) return true; /* one comparison */
    return false;
}

/* True if the word before the full stop at `stop` does not end the sentence. */
static bool is_abbreviated(const sr_sentences *s, size_t stop, bool digit_follows) {
    enum { LONGEST = 32 };
    size_t first = stop, part = stop; /* the word, and the part after its last inner full stop */
    while (first > s->begin && stop - first < LONGEST) {
        size_t start = first - 1;
        while (start > s->begin && (s->text[start] & 0xC0) == 0x80 && first - start < 4) start--;
        int32_t cp = s->text[start];
        if (cp >= 0x80) sr_utf8_decode(&cp, s->text + start, first - start);
        if (cp != '.' && (cp < 0 || !sr_char_is_alphabetic(cp))) break;
        if (cp != '.' && part == first) part = start;
        first = start;
    }
    int32_t cp = -1;
    size_t length = part < stop ? (size_t)sr_utf8_decode(&cp, s->text + part, stop - part) : 0;
    if (length == stop - part && cp >= 0 && sr_char_is_capital(cp)) return true; /* an initial */
    const uint8_t *word = s->text + first;
    if (first == stop) return false;
    if (is_listed(s, ABBREVIATIONS, word, stop - first)) return true;
    return digit_follows && is_listed(s, BEFORE_DIGITS, word, stop - first);
}

typedef enum verdict { ENDS, GOES_ON, UNDECIDED } verdict;

/* Classifies the stop at `stop`.  ENDS: the sentence ends at *last and the next begins at *next.
 * GOES_ON: continue from *next.  UNDECIDED: the decision needs more text. */
static verdict judge(const sr_sentences *s, size_t stop, size_t *last, size_t *next) {
    size_t at = stop, length, stops = 0;
    int32_t cp;
    while ((cp = peek(s, at, &length)) >= 0 && (closes(cp) || (cp < 128 && is_stop((uint8_t)cp)))) {
        stops += !closes(cp);
        at += length;
        if (at - stop <= s->limit) continue;
        *next = at; /* an endless line of full stops */
        return GOES_ON;
    }
    if (at == s->end) return UNDECIDED;
    *last = at;
    *next = skip_space(s, at);
    if (*next == at) return GOES_ON;
    if (*next == s->end) return UNDECIDED;
    cp = peek(s, *next, &length);
    bool digit = cp >= 0 && sr_char_is_digit(cp);
    if (cp < 0 || !(digit || sr_char_is_capital(cp) || opens_quote(cp))) return GOES_ON;
    if (stops == 1 && s->text[stop] == '.' && is_abbreviated(s, stop, digit)) return GOES_ON;
    return ENDS;
}

/* Searches for the end of a sentence from s->scan. */
static bool find_end(sr_sentences *s, size_t *last, size_t *next) {
    if (s->format == SR_TEXT_LINES) return false;
    for (;;) {
        s->scan = sr_spaced_stop(s->text, s->scan, s->end);
        if (s->scan >= s->end) return false;
        verdict v = judge(s, s->scan, last, next);
        if (v == ENDS) return true;
        if (v == UNDECIDED) return false;
        s->scan = *next > s->scan ? *next : s->scan + 1;
    }
}

/* ---- returning sentences ---- */

/* Returns [begin, last); the next sentence begins at `next`.  Splits overlong sentences. */
static void give(sr_sentences *s, sr_sentence *out, size_t last, size_t next) {
    if (last - s->begin > s->limit) {
        const uint8_t *bytes = s->text + s->begin;
        size_t n = s->limit;
        while (n > s->limit / 2 && !is_space(bytes[n])) n--; /* ASCII white space is enough */
        if (n == s->limit / 2) n = sr_utf8_whole(bytes, s->limit);
        last = next = s->begin + n;
        s->counts.long_cut++;
    }
    size_t trimmed = trim(s, s->begin, last);
    *out = (sr_sentence){SR_TEXT_SENTENCE, s->text + s->begin, trimmed - s->begin};
    s->begin = skip_space(s, next);
    if (s->scan < s->begin) s->scan = s->begin;
    s->in_document = true;
    s->counts.sentences++;
}

/* ---- reading lines ---- */

/* Appends bytes, after a space if `apart`. */
static sr_status append(sr_sentences *s, bool apart, const uint8_t *bytes, size_t size) {
    if (s->begin > 0) {
        memmove(s->text, s->text + s->begin, s->end - s->begin);
        s->end -= s->begin;
        s->scan -= s->begin;
        s->begin = 0;
    }
    size_t need;
    SR_TRY(sr_add_size(&need, s->end + apart, size));
    if (need == s->end) return SR_OK;
    if (need + SR_SPACED_MORE > s->room) {
        size_t room = need + need / 2 + SR_SPACED_MORE;
        SR_TRY(sr_grow(&s->text, room));
        s->room = room;
    }
    if (apart) s->text[s->end] = ' ';
    if (size > 0) memcpy(s->text + s->end + apart, bytes, size);
    s->end = need;
    return SR_OK;
}

static size_t blank_prefix(const uint8_t *bytes, size_t size) {
    size_t at = 0;
    while (at < size && !is_plain(bytes[at])) {
        int32_t cp;
        int length = sr_utf8_decode(&cp, bytes + at, size - at);
        if (!is_space(cp)) break;
        at += (size_t)length;
    }
    return at;
}

/* Appends s->line. */
static sr_status take(sr_sentences *s) {
    const sr_line *line = &s->line;
    bool starts = !s->continues;
    size_t blank = blank_prefix(line->bytes, line->size);
    s->line_blank = (starts || s->line_blank) && blank == line->size;
    if (blank < line->size || !starts) {
        size_t skip = starts || s->begin == s->end ? blank : 0;
        bool apart = starts && s->end > s->begin;
        SR_TRY(append(s, apart, line->bytes + skip, line->size - skip));
    }
    s->held = false;
    s->continues = !line->ends;
    if (!line->ends) return SR_OK;
    s->end = trim(s, s->begin, s->end);
    if (s->scan > s->end) s->scan = s->end;
    if (s->line_blank || s->format != SR_TEXT_PROSE) s->flush = true;
    bool is_last = s->line_blank || s->format == SR_TEXT_DOCUMENTS;
    if (is_last && !line->in_record) s->document_ends = true;
    return SR_OK;
}

static sr_status read_more(sr_sentences *s) {
    if (!s->held) {
        SR_TRY(sr_source_line(s->source, &s->line));
        s->held = true;
        if (s->line.bytes == NULL) s->ended = s->flush = s->document_ends = true;
        if (s->line.bytes == NULL || s->line.file_starts) {
            s->continues = false;
            s->flush = s->document_ends = true; /* of the previous file */
            return SR_OK;
        }
    }
    return take(s);
}

/* After a flush: the end of the document, if there was one. */
static bool give_document(sr_sentences *s, sr_sentence *out) {
    bool ends = s->document_ends && s->in_document;
    s->flush = s->document_ends = false;
    s->begin = s->end = s->scan = 0;
    if (!ends) return false;
    s->in_document = false;
    s->counts.documents++;
    *out = (sr_sentence){SR_TEXT_DOCUMENT, NULL, 0};
    return true;
}

sr_status sr_sentences_next(sr_sentences *s, sr_sentence *out) {
    for (;;) {
        size_t last, next;
        if (find_end(s, &last, &next)) {
            give(s, out, last, next);
            return SR_OK;
        }
        if (s->end > s->begin && (s->flush || s->end - s->begin > s->limit)) {
            give(s, out, s->end, s->end);
            return SR_OK;
        }
        if (s->flush) {
            if (give_document(s, out)) return SR_OK;
            continue;
        }
        if (s->ended) break;
        SR_TRY(read_more(s));
    }
    *out = (sr_sentence){SR_TEXT_END, NULL, 0};
    return SR_OK;
}
