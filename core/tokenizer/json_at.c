#include "core/tokenizer/json_at.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

enum { DEPTH = 4 }; /* of sequences in sequences */

sr_json sr_json_key(const sr_json *in, const char *key) {
    return (sr_json){json_object_get(in->value, key), in, key, 0};
}

sr_json sr_json_item(const sr_json *in, size_t index) {
    return (sr_json){json_array_get(in->value, index), in, NULL, index};
}

/* Writes "a.b[1]" and returns its length, which is less than `room`. */
static size_t put_path(char *out, size_t room, const sr_json *at) {
    if (at->in == NULL) return 0;
    size_t used = put_path(out, room, at->in);
    int n = at->key != NULL
                ? snprintf(out + used, room - used, "%s%.64s", used > 0 ? "." : "", at->key)
                : snprintf(out + used, room - used, "[%zu]", at->index);
    used += n > 0 ? (size_t)n : 0;
    return used < room ? used : room - 1;
}

sr_status sr_json_refuse(const sr_json *at, const char *format, ...) {
    char path[256] = "", message[512];
    const sr_json *root = at;
    while (root->in != NULL) root = root->in;
    put_path(path, sizeof path, at);
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return sr_fail(SR_EDATA, "%s: %s%s%s", root->key, path, path[0] != '\0' ? " " : "", message);
}

sr_status sr_json_object(const sr_json *at) {
    return json_is_object(at->value) ? SR_OK : sr_json_refuse(at, "is not an object");
}

sr_status sr_json_list(const sr_json *at) {
    return json_is_array(at->value) ? SR_OK : sr_json_refuse(at, "is not a list");
}

sr_status sr_json_bool(bool *out, const sr_json *in, const char *key, bool otherwise) {
    sr_json at = sr_json_key(in, key);
    *out = otherwise;
    if (sr_json_absent(&at)) return SR_OK;
    if (!json_is_boolean(at.value)) return sr_json_refuse(&at, "is neither true nor false");
    *out = json_is_true(at.value);
    return SR_OK;
}

sr_status sr_json_integer(int64_t *out, const sr_json *in, const char *key, int64_t least,
                          int64_t most) {
    sr_json at = sr_json_key(in, key);
    if (!json_is_integer(at.value)) return sr_json_refuse(&at, "is not a whole number");
    *out = json_integer_value(at.value);
    if (*out < least || *out > most)
        return sr_json_refuse(&at, "is %lld; it must be %lld to %lld", (long long)*out,
                              (long long)least, (long long)most);
    return SR_OK;
}

sr_status sr_json_optional_text(const char **out, size_t *size, const sr_json *in,
                                const char *key) {
    sr_json at = sr_json_key(in, key);
    *out = NULL, *size = 0;
    if (sr_json_absent(&at)) return SR_OK;
    if (!json_is_string(at.value)) return sr_json_refuse(&at, "is not a string");
    *out = json_string_value(at.value);
    *size = json_string_length(at.value);
    return SR_OK;
}

sr_status sr_json_text(const char **out, size_t *size, const sr_json *in, const char *key) {
    SR_TRY(sr_json_optional_text(out, size, in, key));
    sr_json at = sr_json_key(in, key);
    return *out != NULL ? SR_OK : sr_json_refuse(&at, "is missing");
}

sr_status sr_json_choice(int *out, const sr_json *in, const char *key, const char *const *names) {
    const char *text;
    size_t size;
    SR_TRY(sr_json_text(&text, &size, in, key));
    for (*out = 0; names[*out] != NULL; ++*out)
        if (strcmp(text, names[*out]) == 0) return SR_OK;
    sr_json at = sr_json_key(in, key);
    return sr_json_refuse(&at, "is \"%.64s\", which is not supported", text);
}

sr_status sr_json_copy(char **out, size_t *size, const sr_json *in, const char *key) {
    const char *text;
    SR_TRY(sr_json_text(&text, size, in, key));
    SR_TRY(sr_new(out, *size + 1));
    memcpy(*out, text, *size);
    return SR_OK;
}

typedef struct steps {
    const char *const *kinds;
    const char *list;
    sr_json_reader *read;
    void *into;
} steps;

static sr_status read_steps(const steps *s, const sr_json *at, int depth) {
    int kind;
    SR_TRY(sr_json_object(at));
    SR_TRY(sr_json_choice(&kind, at, "type", s->kinds));
    if (s->kinds[kind + 1] != NULL) return s->read(s->into, at, kind);
    sr_json list = sr_json_key(at, s->list);
    SR_TRY(sr_json_list(&list));
    if (depth == DEPTH) return sr_json_refuse(at, "is nested too deep");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        sr_json one = sr_json_item(&list, i);
        SR_TRY(read_steps(s, &one, depth + 1));
    }
    return SR_OK;
}

sr_status sr_json_steps(const sr_json *at, const char *const *kinds, const char *list,
                        sr_json_reader *read, void *into) {
    return read_steps(&(steps){kinds, list, read, into}, at, 0);
}

sr_status sr_json_only(const sr_json *at, const char *const *names) {
    void *i = json_object_iter((json_t *)at->value);
    for (; i != NULL; i = json_object_iter_next((json_t *)at->value, i)) {
        const char *key = json_object_iter_key(i);
        size_t n = 0;
        while (names[n] != NULL && strcmp(names[n], key) != 0) n++;
        sr_json here = sr_json_key(at, key);
        if (names[n] == NULL && !sr_json_absent(&here))
            return sr_json_refuse(&here, "is not supported");
    }
    return SR_OK;
}
