/* choices.c - choices survive the process; the first of a key stands; damage is ignored; choices of
 * a text stand before those of the file. */
#include <stdlib.h>
#include <unistd.h>

#include "core/base/choices.h"
#include "tests/support/check.h"
#include "tests/support/fail.h"
#include "tests/support/scratch.h"

static const char *path;

static bool is(const sr_choices *c, const char *key, const char *value) {
    const char *found = sr_choices_find(c, key);
    if (found == NULL || value == NULL) return found == value;
    return memcmp(found, value, 4) == 0;
}

static sr_choices *open_file(void) {
    sr_choices *c;
    CHECK_OK(sr_choices_open(&c, "four", path, 4));
    return c;
}

static void test_kept(void) {
    sr_choices *a = open_file();
    CHECK(is(a, "m 1", NULL));
    CHECK_OK(sr_choices_add(a, "m 1", "\x01\xff\x10y"));
    CHECK_OK(sr_choices_add(a, "m 12", "abcd"));
    CHECK(is(a, "m 1", "\x01\xff\x10y") && is(a, "m 12", "abcd") && is(a, "m", NULL));
    sr_choices_close(a);
    a = open_file();
    CHECK(is(a, "m 1", "\x01\xff\x10y") && is(a, "m 12", "abcd"));
    sr_choices_close(a);
}

/* Two processes choose for one key: both end with the choice that was stored first. */
static void test_first_stands(void) {
    sr_choices *a = open_file(), *b = open_file();
    CHECK_OK(sr_choices_add(a, "both", "aaaa"));
    CHECK_OK(sr_choices_add(b, "both", "bbbb"));
    CHECK(is(a, "both", "aaaa") && is(b, "both", "aaaa"));
    CHECK_OK(sr_choices_hold(a, "used", "AAAA"));
    CHECK_OK(sr_choices_add(b, "used", "BBBB"));
    CHECK_OK(sr_choices_add(a, "later", "cccc")); /* reads what b has stored */
    CHECK(is(a, "used", "AAAA") && is(b, "used", "BBBB"));
    sr_choices_close(a);
    sr_choices_close(b);
}

static void test_damage(void) {
    static const char text[] =
        "good\t61626364\nshort\t6162\nodd\t6162636g\nnothing\n\t\ngood\t00000000\ntorn\t616";
    put_file(path, text, sizeof text - 1);
    sr_choices *a = open_file();
    CHECK(is(a, "good", "abcd") && is(a, "short", NULL) && is(a, "odd", NULL) &&
          is(a, "torn", NULL));
    CHECK_OK(sr_choices_add(a, "new", "efgh")); /* does not continue the torn line */
    sr_choices_close(a);
    a = open_file();
    CHECK(is(a, "new", "efgh") && is(a, "torn", NULL));
    CHECK_FAILS(sr_choices_add(a, "tab\there", "efgh"), SR_EINVAL, "no tab");
    sr_choices_close(a);
}

static sr_choices *open_memory(const char *name) {
    sr_choices *c;
    CHECK_OK(sr_choices_open(&c, name, NULL, 4));
    return c;
}

static void test_pin(void) {
    sr_choices *a = open_memory("gpu-1"), *b = open_file(), *c = open_memory("gpu-1");
    char *text, *news;
    CHECK_OK(sr_choices_add(a, "x 1", "abcd"));
    CHECK_OK(sr_choices_hold(a, "x 2", "\x01\xff\x10y"));
    CHECK(sr_choices_count(a) == 2 && sr_choices_count(c) == 0);
    CHECK_OK(sr_choices_text(&text, a, 0));
    CHECK(strcmp(text, "seqrun choices 1 gpu-1 4\nx 1\t61626364\nx 2\t01ff1079\nend 2\n") == 0);
    CHECK_OK(sr_choices_text(&news, a, 1));
    CHECK(strcmp(news, "seqrun choices 1 gpu-1 4\nx 2\t01ff1079\nend 1\n") == 0);
    sr_free(news);

    uint64_t pins = sr_choices_pins(c);
    CHECK_OK(sr_choices_add(c, "x 1", "mine"));
    CHECK_OK(sr_choices_pin(c, text, strlen(text)));
    CHECK(is(c, "x 1", "abcd") && is(c, "x 2", "\x01\xff\x10y") && sr_choices_pins(c) != pins);
    CHECK_FAILS(sr_choices_pin(b, text, strlen(text)), SR_EDEVICE,
                "these choices are for gpu-1, not for four");
    sr_free(text);
    sr_choices_close(a);
    sr_choices_close(b);
    sr_choices_close(c);
}

/* Pinned choices stand whatever the file says, and are not written to it. */
static void test_pin_and_file(void) {
    static const char text[] = "seqrun choices 1 four 4\npinned\t61626364\nend 1\n";
    sr_choices *a = open_file(), *b = open_file();
    CHECK_OK(sr_choices_pin(a, text, strlen(text)));
    CHECK_OK(sr_choices_add(b, "pinned", "file"));
    CHECK_OK(sr_choices_add(a, "other", "efgh"));
    CHECK(is(a, "pinned", "abcd") && is(b, "pinned", "file"));
    sr_choices_close(a);
    sr_choices_close(b);
    a = open_file();
    CHECK(is(a, "pinned", "file") && is(a, "other", "efgh"));
    sr_choices_close(a);
}

static void test_torn_text(void) {
    static const char whole[] = "seqrun choices 1 gpu-1 4\nx 1\t61626364\nx 2\t01ff1079\nend 2\n";
    static const char *const wrong[] = {
        "seqrun choices 2 gpu-1 4\nend 0\n",
        "seqrun choices 1 gpu-1 5\nend 0\n",
        "seqrun choices 1 gpu-1 4\nx 1\t61626364\nend 2\n",
        "seqrun choices 1 gpu-1 4\nx 1\t6162636\nend 1\n",
        "seqrun choices 1 gpu-1 4\nx 1\t6162636G\nend 1\n",
        "seqrun choices 1 gpu-1 4\nx 1\t61626364\nx 1\t61626364\nend 2\n",
        "seqrun choices 1 gpu-1 4\nend 0\nmore\n",
    };
    sr_choices *a = open_memory("gpu-1");
    for (size_t size = 0; size < strlen(whole); size++) {
        sr_status st = sr_choices_pin(a, whole, size);
        CHECK(st == SR_EDATA || st == SR_EDEVICE); /* the name may be cut as well */
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(sr_choices_pin(a, wrong[i], strlen(wrong[i])) == SR_EDATA);
    CHECK_FAILS(sr_choices_pin(a, whole, sizeof whole), SR_EDATA, "contains a zero byte");
    CHECK_FAILS(sr_choices_pin(a, whole, strlen(whole) - 2), SR_EDATA, "cut short or damaged");
    CHECK(sr_choices_count(a) == 0);
    CHECK_OK(sr_choices_pin(a, whole, strlen(whole)));
    CHECK(sr_choices_count(a) == 2);
    sr_choices_close(a);
    CHECK_FAILS(sr_choices_open(&a, "two words", NULL, 4), SR_EINVAL, "no spaces");
}

static void test_nowhere(void) {
    sr_choices *a;
    CHECK_OK(sr_choices_open(&a, "four", "/nowhere/choices", 4));
    CHECK_FAILS(sr_choices_add(a, "k", "abcd"), SR_EIO, "/nowhere/choices");
    CHECK(is(a, "k", "abcd"));
    sr_choices_close(a);
    CHECK_OK(sr_choices_open(&a, "four", NULL, 4));
    CHECK_OK(sr_choices_add(a, "k", "abcd"));
    CHECK(is(a, "k", "abcd"));
    sr_choices_close(a);
}

static void test_cache_path(void) {
    char *found;
    setenv("XDG_CACHE_HOME", scratch, 1);
    CHECK_OK(sr_cache_path(&found, "x.txt"));
    CHECK(found != NULL && strstr(found, "/seqrun/x.txt") != NULL);
    sr_free(found);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/proc/nowhere", 1);
    CHECK_OK(sr_cache_path(&found, "x.txt"));
    CHECK(found == NULL);
}

static sr_status open_and_add(void) {
    sr_choices *a;
    SR_TRY(sr_choices_open(&a, "four", path, 4));
    sr_status st = sr_choices_add(a, "memory", "wxyz");
    sr_choices_close(a);
    return st;
}

/* No allocation that fails loses memory or what the file holds. */
static void test_memory(void) {
    CHECK_STARVED(true, open_and_add());
    sr_choices *a = open_file();
    CHECK(is(a, "memory", "wxyz") && is(a, "good", "abcd"));
    sr_choices_close(a);
}

int main(void) {
    if (!scratch_begin()) return 1;
    path = at("choices");
    test_kept();
    test_first_stands();
    test_damage();
    test_pin();
    test_pin_and_file();
    test_torn_text();
    test_nowhere();
    test_cache_path();
    test_memory();
    scratch_end();
    return CHECK_DONE();
}
