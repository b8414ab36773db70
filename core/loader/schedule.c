#include "core/loader/schedule.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"

sr_status sr_schedule_check(const sr_schedule *s, const char *name, double most) {
    for (int64_t i = 0; i < s->count; i++) {
        if (i == 0 ? s->from[i] != 0 : s->from[i] <= s->from[i - 1])
            return sr_fail(SR_EINVAL,
                           "%s: starts must ascend from 0; number %" PRId64 " is %" PRId64, name,
                           i + 1, s->from[i]);
        if (!(s->value[i] > 0 && s->value[i] <= most))
            return sr_fail(SR_EINVAL, "%s: value %" PRId64 " is %g; must be above 0 and at most %g",
                           name, i + 1, s->value[i], most);
    }
    return SR_OK;
}

sr_status sr_schedule_copy(sr_schedule *out, const sr_schedule *s) {
    sr_schedule copy = {.by = s->by, .count = s->count};
    memset(out, 0, sizeof *out);
    if (s->count == 0) return SR_OK;
    sr_status st = sr_new(&copy.from, s->count);
    if (st == SR_OK) st = sr_new(&copy.value, s->count);
    if (st != SR_OK) {
        sr_schedule_free(&copy);
        return st;
    }
    memcpy(copy.from, s->from, (size_t)s->count * sizeof *copy.from);
    memcpy(copy.value, s->value, (size_t)s->count * sizeof *copy.value);
    *out = copy;
    return SR_OK;
}

void sr_schedule_free(sr_schedule *s) {
    sr_free(s->from);
    sr_free(s->value);
    memset(s, 0, sizeof *s);
}

static int64_t counter(sr_schedule_by by, const sr_counters *before) {
    switch (by) {
    case SR_SCHEDULE_SEQUENCES:
        return before->sequences;
    case SR_SCHEDULE_RAW_TOKENS:
        return before->raw_tokens;
    case SR_SCHEDULE_REAL_TOKENS:
        return before->real_tokens;
    default:
        return before->updates + 1;
    }
}

double sr_schedule_at(const sr_schedule *s, const sr_counters *before) {
    if (s->count == 0) return 0;
    int64_t x = counter(s->by, before), low = 0, high = s->count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (s->from[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return s->value[low];
}
