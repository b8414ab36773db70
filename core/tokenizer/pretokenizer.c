#include "core/tokenizer/pretokenizer.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/classes.h"
#include "core/unicode/utf8.h"

void sr_pre_work_free(sr_pre_work *w) {
    sr_run_free(&w->text);
    sr_run_free(&w->other);
    sr_free(w->pieces.list);
    sr_free(w->more.list);
    sr_free(w->found.list);
    sr_matcher_free(&w->matcher);
    *w = (sr_pre_work){0};
}

/* Appends a piece; empty ones are left out. */
static sr_status add(sr_piece_list *l, size_t first, size_t last, bool match) {
    if (first == last) return SR_OK;
    if (l->count == l->room) {
        size_t room = l->room > 0 ? 2 * l->room : 256;
        SR_TRY(sr_grow(&l->list, room));
        l->room = room;
    }
    l->list[l->count++] = (sr_piece){first, last, match};
    return SR_OK;
}

/* ---- what a step finds in a piece: matches and what lies between, all of it in order ---- */

/* Every character with one of `classes` is a match. */
static sr_status find_class(sr_piece_list *out, const sr_run *r, const sr_piece *p, int classes) {
    size_t done = p->first;
    for (size_t at = p->first, next; at < p->last; at = next) {
        int32_t cp;
        next = at + (size_t)sr_utf8_decode(&cp, r->bytes + at, p->last - at);
        if ((sr_class_of(cp) & classes) == 0) continue;
        SR_TRY(add(out, done, at, false));
        SR_TRY(add(out, at, next, true));
        done = next;
    }
    return add(out, done, p->last, false);
}

static sr_status find_pattern(sr_piece_list *out, sr_pre_work *w, const sr_piece *p,
                              const sr_pattern *pattern, bool invert) {
    const uint8_t *bytes = w->text.bytes + p->first;
    size_t size = p->last - p->first, done = 0, before = (size_t)-1;
    for (;;) {
        size_t first = 0, last = 0;
        bool found;
        SR_TRY(sr_pattern_next(pattern, &w->matcher, bytes, size, done, before, &first, &last,
                               &found));
        if (!found) break;
        SR_TRY(add(out, p->first + done, p->first + first, invert));
        SR_TRY(add(out, p->first + first, p->first + last, !invert));
        done = before = last;
    }
    return add(out, p->first + done, p->last, invert);
}

/* \w+|[^\w\s]+ : the matches. */
static sr_status find_words(sr_piece_list *out, const sr_run *r, const sr_piece *p) {
    int before = -1;
    for (size_t at = p->first, next; at < p->last; at = next) {
        int32_t cp;
        next = at + (size_t)sr_utf8_decode(&cp, r->bytes + at, p->last - at);
        int class = sr_class_of(cp), kind = (class & SR_CLASS_WORD) != 0    ? 1
                                            : (class & SR_CLASS_SPACE) != 0 ? 0
                                                                            : 2;
        if (kind != 0 && kind == before && out->count > 0)
            out->list[out->count - 1].last = next;
        else if (kind != 0)
            SR_TRY(add(out, at, next, true));
        before = kind;
    }
    return SR_OK;
}

/* ---- what a step makes of it ---- */

/* Contiguous: neighbours of one kind are one piece.  Otherwise a match joins the piece before it,
 * unless that is a match. */
static sr_status join_back(sr_piece_list *out, const sr_piece_list *found, bool contiguous) {
    bool before = false;
    for (size_t i = 0; i < found->count; i++) {
        const sr_piece *f = &found->list[i];
        if (i > 0 && (contiguous ? f->match == before : f->match && !before))
            out->list[out->count - 1].last = f->last;
        else
            SR_TRY(add(out, f->first, f->last, false));
        before = f->match;
    }
    return SR_OK;
}

/* A match joins the piece after it, unless that is a match. */
static sr_status join_next(sr_piece_list *out, const sr_piece_list *found) {
    for (size_t i = 0; i < found->count; i++) {
        const sr_piece *f = &found->list[i];
        bool joins = f->match && i + 1 < found->count && !found->list[i + 1].match;
        SR_TRY(add(out, f->first, joins ? found->list[i + 1].last : f->last, false));
        if (joins) i++;
    }
    return SR_OK;
}

static sr_status apply(sr_piece_list *out, const sr_piece_list *found, sr_split_behavior how) {
    if (how == SR_SPLIT_CONTIGUOUS || how == SR_SPLIT_PREVIOUS)
        return join_back(out, found, how == SR_SPLIT_CONTIGUOUS);
    if (how == SR_SPLIT_NEXT) return join_next(out, found);
    for (size_t i = 0; i < found->count; i++) {
        const sr_piece *f = &found->list[i];
        if (how == SR_SPLIT_REMOVED && f->match) continue;
        SR_TRY(add(out, f->first, f->last, false));
    }
    return SR_OK;
}

/* ---- steps that change the text ---- */

/* Copies a piece to w->other with a prefix, which has the place of its first character. */
static sr_status copy_with(sr_pre_work *w, const sr_piece *p, const void *prefix, size_t size,
                           bool wanted) {
    const sr_run *r = &w->text;
    uint32_t from = r->aligned ? r->from[p->first] : 0, to = r->aligned ? r->to[p->first] : 0;
    if (wanted) SR_TRY(sr_run_add(&w->other, prefix, size, from, to));
    return sr_run_copy(&w->other, r, p->first, p->last);
}

/* Appends a piece to w->other, with each space as the mark. */
static sr_status copy_marked(sr_pre_work *w, const sr_piece *p, const sr_pre_step *s) {
    const sr_run *r = &w->text;
    sr_run *o = &w->other;
    SR_TRY(sr_run_reserve(o, (p->last - p->first) * (size_t)s->mark_size));
    for (size_t i = p->first; i < p->last; i++) {
        bool space = r->bytes[i] == ' ';
        for (int n = 0; n < (space ? s->mark_size : 1); n++) {
            if (o->aligned) o->from[o->size] = r->from[i], o->to[o->size] = r->to[i];
            o->bytes[o->size++] = space ? s->mark[n] : r->bytes[i];
        }
    }
    return SR_OK;
}

/* Cuts [first, end of w->other) before every mark but the first character's. */
static sr_status cut_marked(sr_pre_work *w, size_t first, const sr_pre_step *s) {
    const sr_run *o = &w->other;
    size_t size = (size_t)s->mark_size, done = first;
    for (size_t at = first; s->split && at + size <= o->size;) {
        const uint8_t *found = memchr(o->bytes + at, s->mark[0], o->size - at);
        if (found == NULL) break;
        at = (size_t)(found - o->bytes);
        if (at + size <= o->size && memcmp(found, s->mark, size) == 0) {
            SR_TRY(add(&w->more, done, at, false));
            done = at;
            at += size;
        } else {
            at++;
        }
    }
    return add(&w->more, done, o->size, false);
}

static sr_status metaspace(sr_pre_work *w, const sr_piece *p, const sr_pre_step *s) {
    const sr_run *r = &w->text;
    size_t size = (size_t)s->mark_size, first = w->other.size;
    bool marked = r->bytes[p->first] == ' ' ||
                  (p->last - p->first >= size && memcmp(r->bytes + p->first, s->mark, size) == 0);
    bool begins = s->scheme == SR_PRE_FIRST && r->aligned && r->from[p->first] == 0;
    if (!marked && (s->scheme == SR_PRE_ALWAYS || begins)) {
        uint32_t from = r->aligned ? r->from[p->first] : 0, to = r->aligned ? r->to[p->first] : 0;
        SR_TRY(sr_run_add(&w->other, s->mark, size, from, to));
    }
    SR_TRY(copy_marked(w, p, s));
    return cut_marked(w, first, s);
}

/* Puts a space before a piece that has none. */
static sr_status prefix(sr_pre_work *w, const sr_piece *p) {
    size_t first = w->other.size;
    SR_TRY(copy_with(w, p, " ", 1, w->text.bytes[p->first] != ' '));
    return add(&w->more, first, w->other.size, false);
}

/* ---- a step on all pieces ---- */

/* Makes w->more the pieces, and w->other the text if `text`. */
static void turn(sr_pre_work *w, bool text) {
    sr_piece_list list = w->pieces;
    w->pieces = w->more;
    w->more = list;
    w->more.count = 0;
    if (!text) return;
    sr_run run = w->text;
    w->text = w->other;
    w->other = run;
}

static sr_status change_all(sr_pre_work *w, const sr_pre_step *s) {
    sr_run_clear(&w->other, w->text.aligned);
    w->more.count = 0;
    for (size_t i = 0; i < w->pieces.count; i++)
        SR_TRY(s != NULL ? metaspace(w, &w->pieces.list[i], s) : prefix(w, &w->pieces.list[i]));
    turn(w, true);
    return SR_OK;
}

static sr_status split_one(sr_pre_work *w, const sr_piece *p, const sr_pre_step *s, int classes,
                           sr_split_behavior how) {
    w->found.count = 0;
    if (s->kind == SR_PRE_WHITESPACE) return find_words(&w->more, &w->text, p);
    if (classes != 0)
        SR_TRY(find_class(&w->found, &w->text, p, classes));
    else
        SR_TRY(find_pattern(&w->found, w, p, s->pattern, s->invert));
    return apply(&w->more, &w->found, how);
}

static sr_status split_all(sr_pre_work *w, const sr_pre_step *s, int classes,
                           sr_split_behavior how) {
    w->more.count = 0;
    for (size_t i = 0; i < w->pieces.count; i++) {
        sr_piece p = w->pieces.list[i];
        SR_TRY(split_one(w, &p, s, classes, how));
    }
    turn(w, false);
    return SR_OK;
}

static sr_status run_step(sr_pre_work *w, const sr_pre_step *s, bool spaced) {
    switch (s->kind) {
    case SR_PRE_BERT:
        SR_TRY(split_all(w, s, SR_CLASS_SPACE, SR_SPLIT_REMOVED));
        return split_all(w, s, SR_CLASS_PUNCT, SR_SPLIT_ISOLATED);
    case SR_PRE_WHITESPACE:
        return split_all(w, s, 0, SR_SPLIT_REMOVED);
    case SR_PRE_WHITESPACE_SPLIT:
        return split_all(w, s, SR_CLASS_SPACE, SR_SPLIT_REMOVED);
    case SR_PRE_DIGITS:
        return split_all(w, s, SR_CLASS_NUMERIC,
                         s->individual ? SR_SPLIT_ISOLATED : SR_SPLIT_CONTIGUOUS);
    case SR_PRE_PUNCTUATION:
        return split_all(w, s, SR_CLASS_PUNCT, s->behavior);
    case SR_PRE_METASPACE:
        return change_all(w, s);
    case SR_PRE_BYTE_LEVEL:
        if (s->prefix || spaced) SR_TRY(change_all(w, NULL));
        return s->pattern != NULL ? split_all(w, s, 0, s->behavior) : SR_OK;
    default:
        return split_all(w, s, 0, s->behavior);
    }
}

sr_status sr_pretokenize(sr_pre_work *w, const sr_pretokenizer *p, bool spaced) {
    w->pieces.count = 0;
    SR_TRY(add(&w->pieces, 0, w->text.size, false));
    if (spaced && p->bytes && p->count > 1) SR_TRY(change_all(w, NULL));
    for (int i = 0; i < p->count; i++) SR_TRY(run_step(w, &p->steps[i], spaced && p->count == 1));
    return SR_OK;
}

/* ---- reading ---- */

static const char *const behaviors[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous", NULL};

static sr_status read_behavior(sr_pre_step *s, const sr_json *at, bool required) {
    sr_json behavior = sr_json_key(at, "behavior");
    int choice = SR_SPLIT_ISOLATED;
    if (required || !sr_json_absent(&behavior))
        SR_TRY(sr_json_choice(&choice, at, "behavior", behaviors));
    s->behavior = (sr_split_behavior)choice;
    return SR_OK;
}

static sr_status read_byte_level(sr_pre_step *s, const sr_json *at) {
    bool regex;
    SR_TRY(sr_json_bool(&s->prefix, at, "add_prefix_space", true));
    SR_TRY(sr_json_bool(&regex, at, "use_regex", true));
    s->behavior = SR_SPLIT_ISOLATED;
    return regex ? sr_pattern_gpt2(&s->pattern) : SR_OK;
}

static sr_status read_split(sr_pre_step *s, const sr_json *at) {
    sr_json pattern = sr_json_key(at, "pattern");
    SR_TRY(sr_pattern_read(&s->pattern, &pattern));
    if (sr_pattern_matches_empty(s->pattern))
        return sr_json_refuse(&pattern, "can match nothing, which is not supported");
    SR_TRY(read_behavior(s, at, true));
    return sr_json_bool(&s->invert, at, "invert", false);
}

static sr_status read_metaspace(sr_pre_step *s, const sr_json *at) {
    static const char *const schemes[] = {"always", "first", "never", NULL};
    const char *mark;
    size_t size;
    SR_TRY(sr_json_text(&mark, &size, at, "replacement"));
    int32_t cp;
    s->mark_size = size > 0 ? sr_utf8_decode(&cp, (const uint8_t *)mark, size) : 0;
    if (size == 0 || size > 4 || s->mark_size != (int)size)
        return sr_json_refuse(at, "has a replacement that is not one character");
    memcpy(s->mark, mark, size);
    bool prefix;
    sr_json scheme = sr_json_key(at, "prepend_scheme");
    SR_TRY(sr_json_bool(&prefix, at, "add_prefix_space", true));
    s->scheme = prefix ? SR_PRE_ALWAYS : SR_PRE_NEVER;
    if (!sr_json_absent(&scheme)) {
        sr_json old = sr_json_key(at, "add_prefix_space");
        SR_TRY(sr_json_choice(&s->scheme, at, "prepend_scheme", schemes));
        if (!sr_json_absent(&old) && !prefix && s->scheme != SR_PRE_NEVER)
            return sr_json_refuse(at, "has a prepend_scheme that contradicts add_prefix_space");
    }
    return sr_json_bool(&s->split, at, "split", true);
}

static sr_status read_step(void *into, const sr_json *at, int kind) {
    sr_pretokenizer *p = into;
    if (p->count == SR_PRE_STEPS)
        return sr_json_refuse(at, "is one of more than %d steps", SR_PRE_STEPS);
    if (p->bytes) return sr_json_refuse(at, "comes after ByteLevel, which is not supported");
    sr_pre_step *s = &p->steps[p->count++];
    s->kind = (sr_pre_kind)kind;
    if (kind == SR_PRE_BYTE_LEVEL) {
        p->bytes = true;
        return read_byte_level(s, at);
    }
    if (kind == SR_PRE_SPLIT) return read_split(s, at);
    if (kind == SR_PRE_METASPACE) {
        SR_TRY(read_metaspace(s, at));
        p->needs_places |= s->scheme == SR_PRE_FIRST;
        return SR_OK;
    }
    if (kind == SR_PRE_DIGITS) return sr_json_bool(&s->individual, at, "individual_digits", false);
    return kind == SR_PRE_PUNCTUATION ? read_behavior(s, at, false) : SR_OK;
}

/* One known pattern covers every text, so isolating its matches or keeping only them is the same.
 */
static sr_pattern_scan whole_scan(const sr_pretokenizer *p) {
    if (!p->bytes || p->steps[p->count - 1].prefix) return NULL;
    const sr_pre_step *s = &p->steps[0];
    if (p->count == 1) return s->pattern != NULL ? sr_pattern_program(s->pattern) : NULL;
    if (p->count != 2 || s->kind != SR_PRE_SPLIT || p->steps[1].pattern != NULL) return NULL;
    bool isolated = s->behavior == SR_SPLIT_ISOLATED,
         removed = s->behavior == SR_SPLIT_REMOVED && s->invert;
    return isolated || removed ? sr_pattern_program(s->pattern) : NULL;
}

sr_status sr_pretokenizer_read(sr_pretokenizer *p, const sr_json *at) {
    static const char *const kinds[] = {
        "BertPreTokenizer", "Whitespace", "WhitespaceSplit", "ByteLevel", "Split",
        "Metaspace",        "Digits",     "Punctuation",     "Sequence",  NULL};
    sr_classes_init();
    if (sr_json_absent(at)) return SR_OK;
    SR_TRY(sr_json_steps(at, kinds, "pretokenizers", read_step, p));
    p->scan = p->count > 0 ? whole_scan(p) : NULL;
    return SR_OK;
}

bool sr_pretokenizer_marks(const sr_pretokenizer *p) {
    for (int i = 0; i < p->count; i++)
        if (p->steps[i].kind == SR_PRE_METASPACE) return true;
    return false;
}

void sr_pretokenizer_free(sr_pretokenizer *p) {
    for (int i = 0; i < p->count; i++) sr_pattern_free(p->steps[i].pattern);
    p->count = 0;
}
