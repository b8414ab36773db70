#include "core/batch/course.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"

sr_status sr_course_check(const sr_course *c, const char *name, double most) {
    for (int64_t i = 0; i < c->count; i++) {
        if (i == 0 ? c->from[i] != 0 : c->from[i] <= c->from[i - 1])
            return sr_fail(SR_EINVAL,
                           "%s: starts must ascend from 0; number %" PRId64 " is %" PRId64, name,
                           i + 1, c->from[i]);
        if (!(c->value[i] > 0 && c->value[i] <= most))
            return sr_fail(SR_EINVAL, "%s: value %" PRId64 " is %g; must be above 0 and at most %g",
                           name, i + 1, c->value[i], most);
    }
    return SR_OK;
}

sr_status sr_course_copy(sr_course *out, const sr_course *c) {
    sr_course copy = {.by = c->by, .count = c->count};
    memset(out, 0, sizeof *out);
    if (c->count == 0) return SR_OK;
    sr_status st = sr_new(&copy.from, c->count);
    if (st == SR_OK) st = sr_new(&copy.value, c->count);
    if (st != SR_OK) {
        sr_course_free(&copy);
        return st;
    }
    memcpy(copy.from, c->from, (size_t)c->count * sizeof *copy.from);
    memcpy(copy.value, c->value, (size_t)c->count * sizeof *copy.value);
    *out = copy;
    return SR_OK;
}

void sr_course_free(sr_course *c) {
    sr_free(c->from);
    sr_free(c->value);
    memset(c, 0, sizeof *c);
}

static int64_t counter(sr_course_by by, const sr_counters *before) {
    switch (by) {
    case SR_COURSE_SEQUENCES:
        return before->sequences;
    case SR_COURSE_RAW_TOKENS:
        return before->raw_tokens;
    case SR_COURSE_REAL_TOKENS:
        return before->real_tokens;
    default:
        return before->updates + 1;
    }
}

double sr_course_at(const sr_course *c, const sr_counters *before) {
    if (c->count == 0) return 0;
    int64_t x = counter(c->by, before), low = 0, high = c->count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (c->from[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return c->value[low];
}
