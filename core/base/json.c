#include "core/base/json.h"

#include <setjmp.h>
#include <stdint.h>

#include "core/base/mem.h"

/* Before each block of jansson's; those of a text that is being read are in a ring. */
typedef struct block {
    struct block *before, *after;
} block;

typedef struct reading {
    jmp_buf leave;
    block ring;
} reading;

static _Thread_local reading *now;

static void alone(block *b) {
    b->before = b->after = b;
}

static void *allocate(size_t bytes) {
    block *b = bytes < SIZE_MAX - sizeof *b ? sr_mem_malloc(sizeof *b + bytes) : NULL;
    if (b == NULL) {
        if (now != NULL) longjmp(now->leave, 1);
        return NULL;
    }
    alone(b);
    if (now != NULL) {
        b->before = &now->ring;
        b->after = now->ring.after;
        b->after->before = now->ring.after = b;
    }
    return b + 1;
}

void sr_json_free(void *bytes) {
    if (bytes == NULL) return;
    block *b = (block *)bytes - 1;
    b->before->after = b->after;
    b->after->before = b->before;
    sr_free(b);
}

/* Before main(), so that no block is of another allocator. */
__attribute__((constructor)) static void set_memory(void) {
    json_set_alloc_funcs(allocate, sr_json_free);
}

/* Leaves the blocks to their owner: they may end in any order and thread. */
static void keep_all(reading *r) {
    for (block *b = r->ring.after, *next; b != &r->ring; b = next) {
        next = b->after;
        alone(b);
    }
}

static void free_all(reading *r) {
    while (r->ring.after != &r->ring) sr_json_free(r->ring.after + 1);
}

sr_status sr_json_load(json_t **out, const char *text, size_t size, size_t flags,
                       json_error_t *error) {
    reading r;
    *out = NULL;
    alone(&r.ring);
    now = &r;
    if (setjmp(r.leave) != 0) {
        now = NULL;
        free_all(&r);
        return sr_fail(SR_ENOMEM, "out of memory while reading JSON");
    }
    *out = json_loadb(text, size, flags, error);
    if (*out == NULL && json_error_code(error) == json_error_numeric_overflow)
        *out = json_loadb(text, size, flags | JSON_DECODE_INT_AS_REAL, error);
    now = NULL;
    keep_all(&r);
    if (*out != NULL) return SR_OK;
    return sr_fail(SR_EDATA, "line %d, column %d: %s", error->line, error->column, error->text);
}
