#include "core/base/choices.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

enum { LIMIT = 16 << 20 }; /* maximum bytes of a file, far more than choices need */

typedef struct choice {
    char *key;
    unsigned char value[SR_CHOICE_BYTES];
} choice;

struct sr_choices {
    char *name, *path;
    size_t bytes;
    choice *list;
    size_t count, room;
    uint64_t pins;
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

static void forget(sr_choices *c) {
    for (size_t i = 0; i < c->count; i++) sr_free(c->list[i].key);
    sr_free(c->list);
    c->list = NULL;
    c->count = c->room = 0;
}

/* Parses a line without its line feed; false if it is not a choice. */
static bool read_line(unsigned char *value, size_t *length, const sr_choices *c, const char *line,
                      const char *end) {
    const char *tab = memchr(line, '\t', (size_t)(end - line));
    if (tab == NULL || (size_t)(end - tab - 1) != 2 * c->bytes) return false;
    *length = (size_t)(tab - line);
    return read_hex(value, c->bytes, tab + 1);
}

/* Takes over the choices of the file's text; the first of a key wins over later ones, and over
 * memory for the key `own`, which this process has just chosen.  Older choices are already in use.
 */
static sr_status take(sr_choices *c, const char *text, const char *own) {
    sr_choices seen = {.bytes = c->bytes};
    sr_status st = SR_OK;
    for (const char *line = text, *end; st == SR_OK && (end = strchr(line, '\n')) != NULL;
         line = end + 1) {
        unsigned char value[SR_CHOICE_BYTES];
        size_t length;
        if (!read_line(value, &length, c, line, end) || find(&seen, line, length) != NULL) continue;
        st = put(&seen, line, length, value);
        bool is_own = own != NULL && strncmp(own, line, length) == 0 && own[length] == '\0';
        if (st == SR_OK && (is_own || find(c, line, length) == NULL))
            st = put(c, line, length, value);
    }
    forget(&seen);
    return st;
}

/* Reads the file; *torn when its last line has no end. */
static sr_status load(sr_choices *c, bool *torn, const char *own) {
    void *text;
    size_t size;
    *torn = false;
    if (c->path == NULL) return SR_OK;
    sr_status st = sr_file_read(&text, &size, c->path, LIMIT);
    if (st != SR_OK) return st == SR_ENOMEM ? st : SR_OK;
    *torn = size > 0 && ((char *)text)[size - 1] != '\n';
    if (strlen(text) == size) st = take(c, text, own);
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

sr_status sr_choices_open(sr_choices **out, const char *name, const char *path, size_t bytes) {
    sr_choices *c;
    bool torn;
    *out = NULL;
    if (name[0] == '\0' || strpbrk(name, " \t\n") != NULL)
        return sr_fail(SR_EINVAL, "choices: a name has no spaces");
    if (bytes > SR_CHOICE_BYTES)
        return sr_fail(SR_EINVAL, "choices: a value has at most %d bytes", SR_CHOICE_BYTES);
    SR_TRY(sr_new(&c, 1));
    c->bytes = bytes;
    sr_status st = sr_strdup(&c->name, name);
    if (st == SR_OK && path != NULL) st = sr_strdup(&c->path, path);
    if (st == SR_OK) st = load(c, &torn, NULL);
    return SR_GIVE(out, c, st, sr_choices_close);
}

void sr_choices_close(sr_choices *c) {
    if (c == NULL) return;
    forget(c);
    sr_free(c->name);
    sr_free(c->path);
    sr_free(c);
}

const void *sr_choices_find(const sr_choices *c, const char *key) {
    const choice *at = find(c, key, strlen(key));
    return at != NULL ? at->value : NULL;
}

sr_status sr_choices_hold(sr_choices *c, const char *key, const void *value) {
    size_t length = strlen(key);
    if (length > SR_CHOICE_KEY || strpbrk(key, "\t\n") != NULL)
        return sr_fail(SR_EINVAL,
                       "choices: a key has at most %d characters, no tab and no line "
                       "break",
                       SR_CHOICE_KEY);
    return put(c, key, length, value);
}

sr_status sr_choices_add(sr_choices *c, const char *key, const void *value) {
    bool torn;
    SR_TRY(sr_choices_hold(c, key, value));
    if (c->path == NULL) return SR_OK;
    SR_TRY(load(c, &torn, key));
    SR_TRY(append(c, key, value, torn));
    return load(c, &torn, key);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static const char magic[] = "seqrun choices 1 ";

size_t sr_choices_count(const sr_choices *c) {
    return c->count;
}

uint64_t sr_choices_pins(const sr_choices *c) {
    return c->pins;
}

/* Bytes of a text of these choices and its end. */
static size_t text_room(const sr_choices *c, size_t from) {
    size_t room = sizeof magic + strlen(c->name) + 64;
    for (size_t i = from; i < c->count; i++) room += strlen(c->list[i].key) + 2 * c->bytes + 2;
    return room;
}

sr_status sr_choices_text(char **out, const sr_choices *c, size_t from) {
    static const char digits[] = "0123456789abcdef";
    size_t room = text_room(c, from), count = from < c->count ? c->count - from : 0;
    char *text;
    *out = NULL;
    SR_TRY(sr_alloc((void **)&text, room, 1));
    size_t n = (size_t)snprintf(text, room, "%s%s %zu\n", magic, c->name, c->bytes);
    for (size_t i = from; i < c->count; i++) {
        n += (size_t)snprintf(text + n, room - n, "%s\t", c->list[i].key);
        for (size_t k = 0; k < c->bytes; k++) {
            text[n++] = digits[c->list[i].value[k] >> 4];
            text[n++] = digits[c->list[i].value[k] & 15];
        }
        text[n++] = '\n';
    }
    snprintf(text + n, room - n, "end %zu\n", count);
    *out = text;
    return SR_OK;
}

/* *line = what follows the first line, whose name and size must be ours. */
static sr_status read_head(const char **line, const sr_choices *c, const char *text) {
    char ours[32];
    const char *name = text + sizeof magic - 1;
    if (strncmp(text, magic, sizeof magic - 1) != 0)
        return sr_fail(SR_EDATA, "not a list of choices that this version of seqrun reads");
    size_t length = strcspn(name, " \n");
    int n = snprintf(ours, sizeof ours, " %zu\n", c->bytes);
    if (length != strlen(c->name) || memcmp(name, c->name, length) != 0)
        return sr_fail(SR_EDEVICE, "these choices are for %.*s, not for %s",
                       length < 200 ? (int)length : 200, name, c->name);
    if (strncmp(name + length, ours, (size_t)n) != 0)
        return sr_fail(SR_EDATA, "the choices for %s have values of another size", c->name);
    *line = name + length + n;
    return SR_OK;
}

/* Reads all of a text; what it has up to an error is in `read`. */
static sr_status read_text(sr_choices *read, const char *text) {
    const char *line = NULL, *end;
    char last[32];
    SR_TRY(read_head(&line, read, text));
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        unsigned char value[SR_CHOICE_BYTES];
        size_t length;
        if (!read_line(value, &length, read, line, end)) break;
        if (length > SR_CHOICE_KEY || find(read, line, length) != NULL)
            return sr_fail(SR_EDATA,
                           "choice %zu: the key has more than %d characters or is a duplicate",
                           read->count + 1, SR_CHOICE_KEY);
        if (read->count == SR_CHOICES_IN_TEXT)
            return sr_fail(SR_EDATA, "more than %d choices", SR_CHOICES_IN_TEXT);
        SR_TRY(put(read, line, length, value));
    }
    snprintf(last, sizeof last, "end %zu\n", read->count);
    if (strcmp(line, last) == 0) return SR_OK;
    return sr_fail(SR_EDATA, "the list of choices is cut short or damaged after choice %zu",
                   read->count);
}

sr_status sr_choices_pin(sr_choices *c, const char *text, size_t size) {
    sr_choices read = {.name = c->name, .bytes = c->bytes};
    char *copy; /* ends with a NUL */
    SR_TRY(sr_alloc((void **)&copy, size + 1, 1));
    memcpy(copy, text, size);
    sr_status st = strlen(copy) == size
                       ? read_text(&read, copy)
                       : sr_fail(SR_EDATA, "the list of choices contains a zero byte");
    sr_free(copy);
    for (size_t i = 0; i < read.count && st == SR_OK; i++)
        st = put(c, read.list[i].key, strlen(read.list[i].key), read.list[i].value);
    c->pins++;
    forget(&read);
    return st;
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
