/* documents.h - lines of JSONL to the lines of their texts: each record is a document.
 *
 * Lines are fed in parts; once a line is complete, its record is read, and the lines of its text
 * come out.  Records that a condition does not want are counted and left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text/condition.h"

SR_BEGIN_C

enum { SR_DOCUMENT_LIMIT = 64 << 20 }; /* bytes of a line of JSONL */

/* How records are read; whoever fills it in keeps it alive. */
typedef struct sr_records {
    const char *field;         /* the member with the text; a path as in sr_record_member() */
    const sr_condition *where; /* records that are wanted; NULL: all */
    bool all; /* every file has records; false: those named .jsonl or .ndjson, compressed or not */
} sr_records;

/* Whether the file of this name has records. */
bool sr_records_in(const sr_records *r, const char *path);

typedef struct sr_documents {
    sr_records how;
    uint8_t *line; /* the record so far: bytes [0, size) */
    size_t size, room;
    json_t *record; /* whose text is being given; NULL: none */
    const char *text;
    size_t at, length;      /* of the text: given, and in all */
    uint64_t wanted, other; /* records so far */
} sr_documents;

void sr_documents_close(sr_documents *d); /* all zero is allowed */

/* Adds a part of line `number` of a file; the last one `ends` it.
 *
 * Errors: SR_EDATA  with file and line: not an object of JSON, no text, a name of the condition
 * that the record lacks, longer than SR_DOCUMENT_LIMIT SR_ENOMEM */
sr_status sr_documents_add(sr_documents *d, const uint8_t *bytes, size_t size, bool ends,
                           const char *path, uint64_t number);

/* The next part of a text, up to a line feed and at most `limit` bytes: NULL when there is no more.
 * *ends: it is the end of a line; *starts: the beginning of a document. */
const uint8_t *sr_documents_next(sr_documents *d, size_t limit, size_t *size, bool *ends,
                                 bool *starts);

SR_END_C
