#include "core/unicode/normal_form.h"

#include "core/unicode/chars.h"
#include "core/unicode/utf8.h"

/* Sorts list[first ..] by combining class, which `classes` has; stable. */
static void sort_run(sr_change *list, uint8_t *classes, size_t count) {
    for (size_t i = 1; i < count; i++) {
        sr_change one = list[i];
        uint8_t class = classes[i];
        size_t at = i;
        for (; at > 0 && classes[at - 1] > class; at--)
            list[at] = list[at - 1], classes[at] = classes[at - 1];
        list[at] = one;
        classes[at] = class;
    }
}

enum { RUN = 256 };

/* The combining class of a code point without a decomposition. */
static uint8_t class_of(int32_t cp) {
    sr_char_part parts[SR_CHAR_PARTS];
    if (cp < 0x300) return 0;
    sr_char_decompose(parts, cp, false);
    return parts[0].combining;
}

/* Sorts list[first ..], which is long, by counting. */
static sr_status sort_long(sr_changes *out, size_t first) {
    size_t count = out->count - first, places[257] = {0};
    for (size_t i = 0; i < count; i++) {
        places[class_of(out->list[first + i].cp) + 1]++;
        SR_TRY(sr_changes_add(out, 0, 0));
    }
    for (int rank = 0; rank < 256; rank++) places[rank + 1] += places[rank];
    sr_change *list = out->list + first;
    for (size_t i = 0; i < count; i++) list[count + places[class_of(list[i].cp)]++] = list[i];
    for (size_t i = 0; i < count; i++) list[i] = list[count + i];
    out->count = first + count;
    return SR_OK;
}

typedef struct decomposer {
    sr_changes *out;
    uint8_t classes[RUN]; /* of the marks at the end of `out` */
    size_t marks;
} decomposer;

static sr_status finish(decomposer *d) {
    size_t first = d->out->count - d->marks, marks = d->marks;
    d->marks = 0;
    if (marks > RUN) return sort_long(d->out, first);
    if (marks > 1) sort_run(d->out->list + first, d->classes, marks);
    return SR_OK;
}

static sr_status decompose(sr_changes *out, const sr_run *in, bool compat) {
    decomposer d = {.out = out};
    for (size_t at = 0; at < in->size;) {
        int32_t cp;
        sr_char_part parts[SR_CHAR_PARTS];
        at += (size_t)sr_utf8_decode(&cp, in->bytes + at, in->size - at);
        int count = sr_char_decompose(parts, cp, compat);
        for (int i = 0; i < count; i++) {
            if (parts[i].combining == 0)
                SR_TRY(finish(&d));
            else if (d.marks++ < RUN)
                d.classes[d.marks - 1] = parts[i].combining;
            SR_TRY(sr_changes_add(out, parts[i].cp, i > 0));
        }
    }
    return finish(&d);
}

/* Composes list[first ..] in place; a composed character takes the changes of its parts. */
static void compose(sr_changes *out, size_t first) {
    sr_change *list = out->list;
    size_t kept = first, starter = 0;
    bool started = false;
    int last = -1; /* class of the last mark kept after the starter, -1: none */
    for (size_t i = first; i < out->count; i++) {
        sr_change one = list[i];
        int class = class_of(one.cp);
        if (started && last < class) {
            int32_t whole = sr_char_compose(list[starter].cp, one.cp);
            if (whole >= 0) {
                list[starter] = (sr_change){whole, list[starter].change + one.change - 1};
                continue;
            }
        }
        list[kept] = one;
        if (class == 0)
            starter = kept, started = true, last = -1;
        else if (started)
            last = class;
        kept++;
    }
    out->count = kept;
}

sr_status sr_normal_form(sr_changes *out, const sr_run *in, bool compat, bool composed) {
    size_t first = out->count;
    SR_TRY(decompose(out, in, compat));
    if (composed) compose(out, first);
    return SR_OK;
}
