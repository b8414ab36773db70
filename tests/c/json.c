/* json.c - reading JSON while memory runs out: the same tree or SR_ENOMEM, and nothing is kept. */
#include "core/base/json.h"

#include <stdlib.h>

#include "core/base/limit.h"
#include "tests/support/fail.h"

/* Strings that are longer than those before make jansson's buffer grow, at their last byte too. */
static char *text_of(void) {
    static char text[40000];
    char *to = text + sprintf(text, "{\"list\":[1,2.5,true,null,{}]");
    for (int n = 1; n < 200; n++) to += sprintf(to, ",\"%0*d\":\"\\u00e9\"", n, n);
    sprintf(to, "}");
    return text;
}

static sr_status parse(json_t **out, const char *text) {
    json_error_t error;
    return sr_json_load(out, text, strlen(text), JSON_REJECT_DUPLICATES, &error);
}

static void check_end(sr_status st, json_t *tree, json_t *wanted, int64_t live) {
    CHECK(st == (tree != NULL ? SR_OK : SR_ENOMEM));
    CHECK(tree == NULL || json_equal(tree, wanted));
    json_decref(tree);
    CHECK(sr_mem_live() == live);
}

static void each_allocation_fails(const char *text, json_t *wanted) {
    int64_t live = sr_mem_live();
    for (int sticky = 0; sticky < 2; sticky++) {
        json_t *tree;
        sr_status st;
        STARVE(st, sticky, parse(&tree, text)) check_end(st, tree, wanted, live);
    }
}

/* A limit refuses large blocks and grants the small ones that come after them. */
static void each_limit_holds(const char *text, json_t *wanted) {
    int64_t live = sr_mem_live();
    sr_status st = SR_ENOMEM;
    for (int64_t limit = 0; st != SR_OK; limit += 40) {
        json_t *tree;
        sr_mem_count count;
        sr_mem_watch(&count, limit);
        st = parse(&tree, text);
        sr_mem_watch_end(&count);
        CHECK(count.exceeded == (st == SR_ENOMEM));
        check_end(st, tree, wanted, live);
    }
}

static void errors_say_where(void) {
    json_t *tree;
    CHECK_FAILS(parse(&tree, "{\"a\": 1,\n \"a\": 2}"), SR_EDATA, "line 2, column 4: duplicate");
    CHECK(tree == NULL);
    CHECK_FAILS(parse(&tree, ""), SR_EDATA, "line 1, column 0: ");
}

static void numbers_are_as_large_as_they_like(void) {
    json_t *tree;
    CHECK_OK(parse(&tree, "[1000000000000000019884624838656, 2]"));
    CHECK(json_real_value(json_array_get(tree, 0)) == 1e30);
    CHECK(json_number_value(json_array_get(tree, 1)) == 2);
    json_decref(tree);
    CHECK_FAILS(parse(&tree, "[1e999]"), SR_EDATA, "real number overflow");
}

/* Blocks that one text shares with a tree of another. */
static void trees_end_in_any_order(void) {
    json_t *a, *b;
    int64_t live = sr_mem_live();
    CHECK_OK(parse(&a, "{\"x\": [1, 2], \"y\": \"z\"}"));
    CHECK_OK(parse(&b, "[]"));
    CHECK(json_array_append(b, json_object_get(a, "x")) == 0);
    char *dump = json_dumps(b, JSON_COMPACT);
    json_decref(a);
    CHECK(dump != NULL && strcmp(dump, "[[1,2]]") == 0);
    sr_json_free(dump);
    sr_json_free(NULL);
    json_decref(b);
    CHECK(sr_mem_live() == live);
}

int main(void) {
    const char *text = text_of();
    json_t *wanted;
    CHECK_OK(parse(&wanted, text));
    each_allocation_fails(text, wanted);
    each_limit_holds(text, wanted);
    json_decref(wanted);
    errors_say_where();
    numbers_are_as_large_as_they_like();
    trees_end_in_any_order();
    return CHECK_DONE();
}
