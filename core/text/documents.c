#include "core/text/documents.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/json.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/unicode/utf8.h"

/* ---- which files ---- */

static bool ends_in(const char *path, size_t *size, const char *ending) {
    size_t n = strlen(ending);
    if (*size < n || strncasecmp(path + *size - n, ending, n) != 0) return false;
    *size -= n;
    return true;
}

bool sr_records_in(const sr_records *r, const char *path) {
    if (r->field == NULL) return false;
    size_t size = strlen(path);
    if (!ends_in(path, &size, ".gz")) ends_in(path, &size, ".zst");
    return r->all || ends_in(path, &size, ".jsonl") || ends_in(path, &size, ".ndjson");
}

void sr_documents_close(sr_documents *d) {
    json_decref(d->record);
    sr_free(d->line);
    *d = (sr_documents){0};
}

/* ---- a line to a record ---- */

/* The place of a record, for messages. */
typedef struct place {
    const char *path;
    uint64_t line;
} place;

/* "lang, score, text", of the first members. */
static void list_members(char *out, size_t room, json_t *record) {
    const char *key;
    json_t *value;
    size_t used = 0;
    out[0] = '\0';
    json_object_foreach(record, key, value) {
        if (used + strlen(key) + 8 > room) {
            snprintf(out + used, room - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? ", " : "", key);
    }
}

static sr_status lacks(const place *p, json_t *record, const char *name, const char *key,
                       const char *hint) {
    char members[200];
    list_members(members, sizeof members, record);
    return sr_fail(SR_EDATA, "%s:%ju: no '%s', which %s names; the record has: %s%s", p->path,
                   (uintmax_t)p->line, name, key, members, hint);
}

static const char *type_of(const json_t *value) {
    static const char *const names[] = {"an object", "a list",    "a text",    "a number",
                                        "a number",  "a boolean", "a boolean", "null"};
    return names[json_typeof(value)];
}

/* Bytes that a record may take for each of its own, and at least (docs/evidence/reliability.md). */
enum { MULTIPLE = 32, BESIDES = 16 << 20 };

static sr_status load(json_t **out, const sr_documents *d, json_error_t *error, bool *exceeded) {
    const char *line = (const char *)d->line;
    sr_mem_count count;
    sr_mem_watch(&count, MULTIPLE * (int64_t)d->size + BESIDES);
    sr_status st = sr_json_load(out, line, d->size, JSON_REJECT_DUPLICATES, error);
    sr_mem_watch_end(&count);
    *exceeded = st != SR_OK && count.exceeded;
    return st;
}

static sr_status parse(json_t **out, const sr_documents *d, const place *p) {
    json_error_t error;
    bool exceeded;
    sr_status st = load(out, d, &error, &exceeded);
    if (exceeded)
        return sr_fail(SR_EDATA,
                       "%s:%ju: the record would take more than %d times its size in memory",
                       p->path, (uintmax_t)p->line, MULTIPLE);
    if (st == SR_ENOMEM)
        return sr_fail(SR_ENOMEM, "%s:%ju: out of memory for a record", p->path,
                       (uintmax_t)p->line);
    if (json_is_object(*out)) return SR_OK;
    if (*out != NULL) snprintf(error.text, sizeof error.text, "%s", type_of(*out));
    json_decref(*out);
    return sr_fail(SR_EDATA, "%s:%ju: not a JSON object: %s", p->path, (uintmax_t)p->line,
                   error.text);
}

static sr_status is_wanted(bool *wanted, const sr_documents *d, json_t *record, const place *p) {
    const char *missing = NULL;
    *wanted = d->how.where == NULL || sr_condition_holds(&missing, d->how.where, record);
    if (missing == NULL) return SR_OK;
    char hint[160];
    snprintf(hint, sizeof hint,
             "; if only some records have it, ask for it first: %.40s and %.40s ...", missing,
             missing);
    return lacks(p, record, missing, "where", hint);
}

static sr_status take_text(sr_documents *d, json_t *record, const place *p) {
    const json_t *text = sr_record_member(record, d->how.field);
    if (text == NULL) return lacks(p, record, d->how.field, "columns.text", "");
    if (!json_is_string(text))
        return sr_fail(SR_EDATA, "%s:%ju: '%s' is %s; expected a text", p->path, (uintmax_t)p->line,
                       d->how.field, type_of(text));
    d->text = json_string_value(text);
    d->length = json_string_length(text);
    d->at = 0;
    d->wanted++;
    if (d->length > 0) d->record = json_incref(record);
    return SR_OK;
}

static bool is_blank(const sr_documents *d) {
    size_t at = d->size >= 3 && memcmp(d->line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (at < d->size && strchr(" \t\r", d->line[at]) != NULL) at++;
    return at == d->size;
}

static sr_status read_record(sr_documents *d, const place *p) {
    if (is_blank(d)) return SR_OK;
    if (d->size >= 3 && memcmp(d->line, "\xEF\xBB\xBF", 3) == 0) memset(d->line, ' ', 3);
    json_t *record;
    bool wanted;
    SR_TRY(parse(&record, d, p));
    sr_status st = is_wanted(&wanted, d, record, p);
    if (st == SR_OK && wanted) st = take_text(d, record, p);
    d->other += st == SR_OK && !wanted;
    json_decref(record);
    return st;
}

sr_status sr_documents_add(sr_documents *d, const uint8_t *bytes, size_t size, bool ends,
                           const char *path, uint64_t number) {
    const place p = {path, number};
    if (size > SR_DOCUMENT_LIMIT - d->size)
        return sr_fail(SR_EDATA, "%s:%ju: the record is longer than %d MiB; split its text", path,
                       (uintmax_t)number, SR_DOCUMENT_LIMIT >> 20);
    if (d->size + size > d->room) {
        size_t room = (d->size + size) * 2;
        SR_TRY(sr_grow(&d->line, room));
        d->room = room;
    }
    if (size > 0) memcpy(d->line + d->size, bytes, size);
    d->size += size;
    if (!ends) return SR_OK;
    sr_status st = read_record(d, &p);
    d->size = 0;
    return st;
}

/* ---- its text ---- */

/* The part of `size` bytes, more than `limit`, to give: up to white space, else between code
 * points. */
static size_t part_of(const uint8_t *bytes, size_t limit) {
    for (size_t n = limit; n > limit / 2; n--)
        if (bytes[n - 1] == ' ' || bytes[n - 1] == '\t') return n;
    return sr_utf8_whole(bytes, limit);
}

const uint8_t *sr_documents_next(sr_documents *d, size_t limit, size_t *size, bool *ends,
                                 bool *starts) {
    if (d->record == NULL) return NULL;
    const uint8_t *bytes = (const uint8_t *)d->text + d->at;
    size_t left = d->length - d->at;
    *starts = d->at == 0;
    if (left == 0) {
        json_decref(d->record);
        d->record = NULL;
        return NULL;
    }
    const uint8_t *feed = memchr(bytes, '\n', left);
    *size = feed != NULL ? (size_t)(feed - bytes) : left;
    *ends = *size <= limit;
    if (!*ends) *size = part_of(bytes, limit);
    d->at += *size + (*ends && feed != NULL);
    return bytes;
}
