#include "core/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/classes.h"
#include "core/tokenizer/pattern_known.h"
#include "core/tokenizer/pattern_translate.h"
#include "core/unicode/utf8.h"

enum { PATTERN_LIMIT = 4096, /* bytes of a pattern */ STEPS = 10000000 };

struct sr_pattern {
    char *text; /* a string to find; NULL: a program or PCRE2 */
    size_t size;
    sr_pattern_scan scan;
    pcre2_code *code;
    pcre2_match_context *limits;
    bool jit;
};

static void *pcre_malloc(size_t size, void *context) {
    (void)context;
    return sr_mem_malloc(size);
}

static void pcre_free(void *block, void *context) {
    (void)context;
    sr_free(block);
}

static sr_status compile(sr_pattern *p, const sr_json *at, const char *regex, size_t size) {
    char *text = NULL;
    size_t length = 0;
    SR_TRY(sr_pattern_translate(&text, &length, at, regex, size));
    pcre2_general_context *memory = pcre2_general_context_create(pcre_malloc, pcre_free, NULL);
    pcre2_compile_context *how = memory != NULL ? pcre2_compile_context_create(memory) : NULL;
    int error = 0;
    PCRE2_SIZE place = 0;
    if (how != NULL) {
        pcre2_set_newline(how, PCRE2_NEWLINE_LF);
        p->code = pcre2_compile((PCRE2_SPTR)text, length, PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C,
                                &error, &place, how);
        p->limits = pcre2_match_context_create(memory);
    }
    pcre2_compile_context_free(how);
    pcre2_general_context_free(memory);
    sr_free(text);
    if (p->code == NULL && error != 0 && error != PCRE2_ERROR_NOMEMORY && error != 121) {
        PCRE2_UCHAR message[120];
        pcre2_get_error_message(error, message, sizeof message);
        return sr_json_refuse(at, "is not a pattern: %s", (const char *)message);
    }
    if (p->code == NULL || p->limits == NULL)
        return sr_fail(SR_ENOMEM, "out of memory while reading a pattern");
    pcre2_set_match_limit(p->limits, STEPS);
    p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
    return SR_OK;
}

static sr_status fill(sr_pattern *p, const sr_json *at) {
    sr_json string = sr_json_key(at, "String"), regex = sr_json_key(at, "Regex");
    bool plain = json_is_string(at->value) || json_is_string(string.value);
    sr_json from = json_is_string(at->value) ? *at : plain ? string : regex;
    if (!json_is_string(from.value)) return sr_json_refuse(at, "has neither a String nor a Regex");
    const char *text = json_string_value(from.value);
    size_t size = json_string_length(from.value);
    if (size == 0) return sr_json_refuse(&from, "is empty");
    if (size > PATTERN_LIMIT)
        return sr_json_refuse(&from, "has %zu bytes; the maximum is %d", size, PATTERN_LIMIT);
    if (plain) {
        SR_TRY(sr_new(&p->text, size + 1));
        memcpy(p->text, text, size);
        p->size = size;
        return SR_OK;
    }
    p->scan = sr_pattern_known(text);
    return p->scan != NULL ? SR_OK : compile(p, &from, text, size);
}

sr_status sr_pattern_read(sr_pattern **out, const sr_json *at) {
    *out = NULL;
    sr_pattern *p = NULL;
    sr_classes_init();
    SR_TRY(sr_new(&p, 1));
    sr_status st = fill(p, at);
    if (st == SR_OK)
        *out = p;
    else
        sr_pattern_free(p);
    return st;
}

sr_status sr_pattern_gpt2(sr_pattern **out) {
    sr_classes_init();
    SR_TRY(sr_new(out, 1));
    (*out)->scan = sr_scan_gpt2;
    return SR_OK;
}

void sr_pattern_free(sr_pattern *p) {
    if (p == NULL) return;
    sr_free(p->text);
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    sr_free(p);
}

sr_pattern_scan sr_pattern_program(const sr_pattern *p) {
    return p->scan;
}

int sr_pattern_byte(const sr_pattern *p) {
    return p->text != NULL && p->size == 1 ? (uint8_t)p->text[0] : -1;
}

bool sr_pattern_matches_empty(const sr_pattern *p) {
    uint32_t empty = 0;
    if (p->code != NULL) pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &empty);
    return empty != 0;
}

void sr_matcher_free(sr_matcher *m) {
    pcre2_match_data_free(m->data);
    m->data = NULL;
}

/* ---- matching ---- */

static sr_status match(const sr_pattern *p, sr_matcher *m, const uint8_t *bytes, size_t size,
                       size_t from, size_t *first, size_t *last, bool *found) {
    if (m->data == NULL) {
        pcre2_general_context *memory = pcre2_general_context_create(pcre_malloc, pcre_free, NULL);
        m->data = memory != NULL ? pcre2_match_data_create(1, memory) : NULL;
        pcre2_general_context_free(memory);
        if (m->data == NULL) return sr_fail(SR_ENOMEM, "out of memory while matching a pattern");
    }
    int rc = pcre2_match(p->code, bytes, size, from, PCRE2_NO_UTF_CHECK, m->data, p->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code, bytes, size, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data,
                         p->limits);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) return SR_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return sr_fail(SR_ENOMEM, "out of memory while matching a pattern");
    if (rc < 0)
        return sr_fail(SR_EDATA,
                       "tokenize: a pattern of the tokenizer needs more than %d steps in a text of "
                       "%zu bytes",
                       STEPS, size);
    PCRE2_SIZE *at = pcre2_get_ovector_pointer(m->data);
    *first = at[0], *last = at[1];
    return SR_OK;
}

static sr_status next_of_pcre(const sr_pattern *p, sr_matcher *m, const uint8_t *bytes, size_t size,
                              size_t from, size_t before, size_t *first, size_t *last,
                              bool *found) {
    for (;;) {
        *found = false;
        if (from > size) return SR_OK;
        SR_TRY(match(p, m, bytes, size, from, first, last, found));
        if (!*found || *first != *last || *last != before) return SR_OK;
        int32_t cp; /* an empty match right after the one before: go on behind the next character */
        if (from >= size) {
            *found = false;
            return SR_OK;
        }
        from += (size_t)sr_utf8_decode(&cp, bytes + from, size - from);
        before = (size_t)-1;
    }
}

sr_status sr_pattern_next(const sr_pattern *p, sr_matcher *m, const uint8_t *bytes, size_t size,
                          size_t from, size_t before, size_t *first, size_t *last, bool *found) {
    if (p->code != NULL) return next_of_pcre(p, m, bytes, size, from, before, first, last, found);
    *found = false;
    if (from >= size) return SR_OK;
    if (p->scan != NULL) {
        *first = from;
        *last = p->scan(bytes, from, size);
    } else {
        const uint8_t *at = memmem(bytes + from, size - from, p->text, p->size);
        if (at == NULL) return SR_OK;
        *first = (size_t)(at - bytes);
        *last = *first + p->size;
    }
    *found = true;
    return SR_OK;
}
