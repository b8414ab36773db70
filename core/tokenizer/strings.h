/* strings.h - strings numbered in the order they were first seen. */
#ifndef SR_TOKENIZER_STRINGS_H
#define SR_TOKENIZER_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialised: empty. */
typedef struct sr_strings {
    uint8_t *bytes; /* concatenated */
    size_t *start;  /* offsets in bytes; start[count] is the end */
    uint32_t count;
    uint32_t *slots; /* index plus one, 0: empty */
    size_t bytes_room, start_room, slot_count;
} sr_strings;

/* *index = the index of the string, which is added if it is new.
 * Errors: SR_ENOMEM; then nothing changes. */
sr_status sr_strings_add(uint32_t *index, sr_strings *s, const void *bytes, size_t size);

/* The string and its size; not zero-terminated. */
const uint8_t *sr_strings_get(const sr_strings *s, uint32_t index, size_t *size);

void sr_strings_free(sr_strings *s);

#ifdef __cplusplus
}
#endif
#endif
