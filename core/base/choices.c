#include "core/base/choices.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

enum { LIMIT = 16 << 20 }; /* bytes of a file; nobody makes so many choices */

typedef struct choice {
    char *key;
    unsigned char value[SR_CHOICE_BYTES];
} choice;

struct sr_choices {
    char *path;
    size_t bytes;
    choice *list;
    size_t count, room;
};

static choice *find(const sr_choices *c, const char *key, size_t length) {
    for (size_t i = 0; i < c->count; i++)
        if (strncmp(c->list[i].key, key, length) == 0 && c->list[i].key[length] == '\0')
            return &c->list[i];
    return NULL;
}

/* Adds a choice, or replaces the value of its key. */
static sr_status put(sr_choices *c, const char *key, size_t length, const void *value) {
    choice *at = find(c, key, length);
    if (at == NULL) {
        if (c->count == c->room) {
            size_t room = c->room > 0 ? 2 * c->room : 16;
            SR_TRY(sr_grow(&c->list, room));
            c->room = room;
        }
        char *copy;
        SR_TRY(sr_alloc((void **)&copy, length + 1, 1));
        memcpy(copy, key, length);
        at = &c->list[c->count++];
        at->key = copy;
    }
    memcpy(at->value, value, c->bytes);
    return SR_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(unsigned char *value, size_t bytes, const char *text) {
    for (size_t i = 0; i < bytes; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        value[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Takes over the choices of a text; the first of a key wins over later ones and over memory. */
static sr_status take(sr_choices *c, const char *text) {
    sr_choices seen = {.bytes = c->bytes};
    sr_status st = SR_OK;
    for (const char *line = text, *end; st == SR_OK && (end = strchr(line, '\n')) != NULL;
         line = end + 1) {
        unsigned char value[SR_CHOICE_BYTES];
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        if (tab == NULL || (size_t)(end - tab - 1) != 2 * c->bytes) continue;
        size_t length = (size_t)(tab - line);
        if (!read_hex(value, c->bytes, tab + 1) || find(&seen, line, length) != NULL) continue;
        st = put(&seen, line, length, value);
        if (st == SR_OK) st = put(c, line, length, value);
    }
    for (size_t i = 0; i < seen.count; i++) sr_free(seen.list[i].key);
    sr_free(seen.list);
    return st;
}

/* Reads the file; *torn when its last line has no end. */
static sr_status load(sr_choices *c, bool *torn) {
    void *text;
    size_t size;
    *torn = false;
    if (c->path == NULL) return SR_OK;
    sr_status st = sr_file_read(&text, &size, c->path, LIMIT);
    if (st != SR_OK) return st == SR_ENOMEM ? st : SR_OK;
    *torn = size > 0 && ((char *)text)[size - 1] != '\n';
    if (strlen(text) == size) st = take(c, text);
    sr_free(text);
    return st;
}

static sr_status append(const sr_choices *c, const char *key, const void *value, bool torn) {
    char line[SR_CHOICE_KEY + 2 * SR_CHOICE_BYTES + 4];
    int n = snprintf(line, sizeof line, "%s%s\t", torn ? "\n" : "", key);
    for (size_t i = 0; i < c->bytes; i++)
        n += snprintf(line + n, 3, "%02x", ((const unsigned char *)value)[i]);
    line[n++] = '\n';
    int fd = sr_io_open(c->path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
    if (fd < 0) return sr_io_failed_to_create("write", c->path);
    sr_status st = sr_file_write(fd, line, (size_t)n, c->path);
    sr_status closed = sr_file_close(fd, c->path);
    return st != SR_OK ? st : closed;
}

/* ---- the choices ----------------------------------------------------------------------------- */

sr_status sr_choices_open(sr_choices **out, const char *path, size_t bytes) {
    sr_choices *c;
    bool torn;
    *out = NULL;
    if (bytes > SR_CHOICE_BYTES)
        return sr_fail(SR_EINVAL, "choices: a value has at most %d bytes", SR_CHOICE_BYTES);
    SR_TRY(sr_new(&c, 1));
    c->bytes = bytes;
    sr_status st = path != NULL ? sr_strdup(&c->path, path) : SR_OK;
    if (st == SR_OK) st = load(c, &torn);
    if (st != SR_OK) {
        sr_choices_close(c);
        return st;
    }
    *out = c;
    return SR_OK;
}

void sr_choices_close(sr_choices *c) {
    if (c == NULL) return;
    for (size_t i = 0; i < c->count; i++) sr_free(c->list[i].key);
    sr_free(c->list);
    sr_free(c->path);
    sr_free(c);
}

const void *sr_choices_find(const sr_choices *c, const char *key) {
    const choice *at = find(c, key, strlen(key));
    return at != NULL ? at->value : NULL;
}

sr_status sr_choices_add(sr_choices *c, const char *key, const void *value) {
    bool torn;
    if (strlen(key) > SR_CHOICE_KEY || strpbrk(key, "\t\n") != NULL)
        return sr_fail(SR_EINVAL,
                       "choices: a key has at most %d characters, no tab and no line "
                       "break",
                       SR_CHOICE_KEY);
    SR_TRY(put(c, key, strlen(key), value));
    if (c->path == NULL) return SR_OK;
    SR_TRY(load(c, &torn));
    SR_TRY(append(c, key, value, torn));
    return load(c, &torn);
}

sr_status sr_cache_path(char **out, const char *name) {
    char folder[4096];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool given = cache != NULL && cache[0] == '/';
    *out = NULL;
    if (!given && (home == NULL || home[0] != '/')) return SR_OK;
    int n = snprintf(folder, sizeof folder, "%s/%sseqrun", given ? cache : home,
                     given ? "" : ".cache/");
    if (n >= (int)sizeof folder || sr_file_make_dirs(folder) != SR_OK) return SR_OK;
    return sr_file_join(out, folder, name);
}
