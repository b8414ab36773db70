/* json_at.h - a value of a tokenizer.json and its place, for messages.
 *
 * Every reader of a part takes an sr_json; what it does not support it refuses by name and path:
 *
 *     tokenizer.json: normalizer.normalizers[1].type is "Nmt", which is not supported
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_json {
    const json_t *value;      /* NULL or JSON null: absent */
    const struct sr_json *in; /* the object or list that has it; NULL: the root */
    const char *key;          /* in an object; the name of the file at the root */
    size_t index;             /* in a list, when key is NULL */
} sr_json;

/* A member of an object, absent if there is none; an element of a list. */
sr_json sr_json_key(const sr_json *in, const char *key);
sr_json sr_json_item(const sr_json *in, size_t index);
static inline bool sr_json_absent(const sr_json *at) {
    return at->value == NULL || json_is_null(at->value);
}

/* SR_EDATA: "FILE: PATH " and the message. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
sr_status
sr_json_refuse(const sr_json *at, const char *format, ...);

/* Typed reads; absent is `otherwise` where there is one, and an error where there is none. */
sr_status sr_json_bool(bool *out, const sr_json *in, const char *key, bool otherwise);
sr_status sr_json_integer(int64_t *out, const sr_json *in, const char *key, int64_t least,
                          int64_t most);
sr_status sr_json_text(const char **out, size_t *size, const sr_json *in, const char *key);
sr_status sr_json_optional_text(const char **out, size_t *size, const sr_json *in, const char *key);
sr_status sr_json_object(const sr_json *at);
sr_status sr_json_list(const sr_json *at);

/* The index of the string `key` of an object among `names`, which end with NULL. */
sr_status sr_json_choice(int *out, const sr_json *in, const char *key, const char *const *names);

/* A copy of the string `key` of an object, zero-terminated, freed by sr_free(). */
sr_status sr_json_copy(char **out, size_t *size, const sr_json *in, const char *key);

/* Calls `read` for each step of a part: an object whose `type` is among `kinds`, which end with
 * "Sequence" and NULL.  A Sequence is a list of steps under `list`, at most 4 within each other. */
typedef sr_status sr_json_reader(void *into, const sr_json *at, int kind);
sr_status sr_json_steps(const sr_json *at, const char *const *kinds, const char *list,
                        sr_json_reader *read, void *into);

/* Refuses members of an object that are not among `names`, which end with NULL. */
sr_status sr_json_only(const sr_json *at, const char *const *names);

SR_END_C
