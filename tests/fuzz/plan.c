/* plan.c - accepted plans satisfy every invariant of a plan, and print as they were read. */
#include "core/pack/plan.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    sr_plan *plan = NULL, *again = NULL;
    char *text = NULL;
    size_t length = 0;
    sr_status status = sr_plan_parse(&plan, bytes, size, "fuzz");
    if (!fuzz_accepted(status, plan)) return 0;
    FUZZ_CHECK(sr_plan_check(plan) == SR_OK);
    FUZZ_CHECK(sr_plan_print(&text, &length, plan) == SR_OK);
    FUZZ_CHECK(sr_plan_parse(&again, text, length, "printed") == SR_OK);
    FUZZ_CHECK(again->packs == plan->packs && again->strategies == plan->strategies);
    sr_free(text);
    sr_plan_free(again);
    sr_plan_free(plan);
    return 0;
}
