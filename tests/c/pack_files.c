/* Histogram and plan files: round trips; damaged files are rejected with the line.
 */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/support/fail.h"
#include "tests/c/packing.h"

static sr_status parse(const char *text, int64_t capacity, sr_long_policy policy) {
    OWNED(sr_histogram) h;
    return sr_histogram_parse(&h, text, strlen(text), "x.hist", capacity, policy);
}

static void histograms(void) {
    CHECK_OK(parse("1\n2\n3\n", 0, SR_LONG_ERROR));
    CHECK_OK(parse("1\r\n2\r\n3", 0, SR_LONG_ERROR));
    CHECK_OK(parse("9223372036854775807\n", 0, SR_LONG_ERROR));
    CHECK_FAILS(parse("9223372036854775808\n", 0, SR_LONG_ERROR), SR_EDATA,
                "x.hist:1: a count above");
    CHECK_FAILS(parse("1\n9223372036854775807\n", 0, SR_LONG_ERROR), SR_EDATA, "x.hist:2:");
    CHECK_FAILS(parse("1\n-2\n", 0, SR_LONG_ERROR), SR_EDATA, "x.hist:2: not a count");
    CHECK_FAILS(parse("1\n\n3\n", 0, SR_LONG_ERROR), SR_EDATA, "x.hist:2: not a count");
    CHECK_FAILS(parse("1 2\n", 0, SR_LONG_ERROR), SR_EDATA, "x.hist:1:");
    CHECK_FAILS(parse("1\n2\n3.5\n", 0, SR_LONG_ERROR), SR_EDATA, "x.hist:3:");
    CHECK_FAILS(parse("", 0, SR_LONG_ERROR), SR_EDATA, "no lines");
    CHECK_FAILS(parse("1\n2\n3\n", 2, SR_LONG_ERROR), SR_EDATA, "x.hist:3: pack: a sequence of 3");
    CHECK_FAILS(parse("1\n", SR_MAX_LENGTH + 1, SR_LONG_ERROR), SR_EINVAL, "capacity");
    sr_histogram h;
    CHECK_OK(sr_histogram_parse(&h, "1\n2\n0\n4\n5\n", 10, "x", 2, SR_LONG_TRUNCATE));
    CHECK(h.count[1] == 1 && h.count[2] == 11 && h.longer == 9 && h.lost == 4 * 2 + 5 * 3);
    sr_histogram_free(&h);
    CHECK_OK(sr_histogram_parse(&h, "1\n2\n0\n4\n5\n", 10, "x", 2, SR_LONG_SPLIT));
    CHECK(h.count[1] == 1 + 5 && h.count[2] == 2 + 8 + 10 && h.longer == 9 && h.lost == 0);
    sr_histogram_free(&h);
    CHECK_FAILS(sr_histogram_load(&h, "no/such.hist", 0, SR_LONG_ERROR), SR_ENOENT, "no/such.hist");
}

static void lengths(void) {
    const uint16_t narrow[] = {3, 1, 7, 7, 2};
    const uint32_t wide[] = {3, 1, 70000, 7, 2}, none[] = {3, 0};
    sr_lengths a = {narrow, 2, 5}, b = {wide, 4, 5}, c = {none, 4, 2};
    sr_histogram h;
    CHECK_OK(sr_histogram_count(&h, &a, 7, SR_LONG_ERROR));
    CHECK(h.sequences == 5 && h.tokens == 20 && h.count[7] == 2);
    sr_histogram_free(&h);
    CHECK_FAILS(sr_histogram_count(&h, &b, 7, SR_LONG_ERROR), SR_EDATA, "(sequence 3)");
    CHECK_FAILS(sr_histogram_count(&h, &c, 7, SR_LONG_ERROR), SR_EDATA, "(sequence 2)");
    CHECK_OK(sr_histogram_count(&h, &b, 60000, SR_LONG_SPLIT));
    CHECK(h.sequences == 6 && h.count[10000] == 1 && h.count[60000] == 1);
    sr_histogram_free(&h);
    sr_split_piece *pieces;
    int64_t n;
    CHECK_OK(sr_lengths_split(&pieces, &n, &b, 60000));
    CHECK(n == 6 && pieces[3].uid == 2 && pieces[3].start == 60000 && pieces[3].length == 10000);
    sr_free(pieces);
}

/* Every prefix of a plan file and every changed byte is rejected, never misread. */
static void damage(const char *text, size_t size) {
    sr_plan *plan;
    char *copy = malloc(size + 1);
    for (size_t n = 0; n < size; n++) {
        memcpy(copy, text, n); /* exact size, so that sanitizers detect a read past the end */
        char *cut = malloc(n + !n);
        memcpy(cut, text, n);
        CHECK_FAILS(sr_plan_parse(&plan, cut, n, "p"), SR_EDATA, "p:");
        free(cut);
    }
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, text, size);
            copy[i] = (char)(copy[i] ^ 1 << bit);
            CHECK_FAILS(sr_plan_parse(&plan, copy, size, "p"), SR_EDATA, "p:");
        }
    free(copy);
}

static void plans(void) {
    sr_plan *again = NULL;
    OWN(sr_histogram, h,
        sr_histogram_parse(&h, "9\n0\n3\n1\n0\n2\n1\n", 14, "x", 0, SR_LONG_ERROR));
    OWN(sr_plan, *plan, sr_pack_solve(&plan, &h, &(sr_pack_opts){.solver = "lpfhp"}));
    char *text, *second;
    size_t size, second_size;
    CHECK_OK(sr_plan_print(&text, &size, plan));
    CHECK_OK(sr_plan_parse(&again, text, size, "p"));
    CHECK_OK(sr_plan_print(&second, &second_size, again));
    CHECK(size == second_size && memcmp(text, second, size) == 0);
    CHECK(again->packs == plan->packs && again->deepest == plan->deepest);
    damage(text, size);
    sr_free(text);
    sr_free(second);
    sr_plan_free(again);
    char path[] = "/tmp/seqrun-plan-XXXXXX";
    close(mkstemp(path));
    CHECK_OK(sr_plan_save(plan, path));
    CHECK_OK(sr_plan_load(&again, path));
    remove(path);
    CHECK(again->strategies == plan->strategies);
    sr_plan_free(again);
    CHECK_FAILS(sr_plan_parse(&again, "seqrun plan 2\n", 14, "p"), SR_EDATA,
                "p:1: unsupported version");
}

/* A plan of packs of 5 tokens, with any content and a valid checksum. */
static sr_status forged(const char *max_seqs, const char *rest) {
    char text[512];
    OWNED(sr_plan) *plan = NULL;
    int n = snprintf(text, sizeof text,
                     "seqrun plan 1\nsolver lpfhp\ncapacity 5\nmax_seqs %s\nlonger 0\nlost 0\n"
                     "bound 1 tokens\nmilliseconds 1\n%s",
                     max_seqs, rest);
    XXH128_hash_t sum = XXH3_128bits(text, (size_t)n);
    n += snprintf(text + n, sizeof text - (size_t)n, "checksum %016" PRIx64 "%016" PRIx64 "\n",
                  (uint64_t)sum.high64, (uint64_t)sum.low64);
    return sr_plan_parse(&plan, text, (size_t)n, "p");
}

static void contradictions(void) {
    CHECK_OK(forged("any", "lengths 2\n1 2\n3 1\npatterns 1\n1 3 1x2\n"));
    CHECK_OK(forged("3", "lengths 2\n1 2\n3 1\npatterns 1\n1 3 1x2\n"));
    CHECK_FAILS(forged("2", "lengths 2\n1 2\n3 1\npatterns 1\n1 3 1x2\n"), SR_EDATA,
                "has 3 sequences; the maximum is 2");
    CHECK_FAILS(forged("any", "lengths 2\n1 2\n4 1\npatterns 1\n1 4 1x2\n"), SR_EDATA,
                "has 6 tokens; the capacity is 5");
    CHECK_FAILS(forged("any", "lengths 2\n1 3\n3 1\npatterns 1\n1 3 1x2\n"), SR_EDATA,
                "1 sequence of 1 tokens is not in any pack");
    CHECK_FAILS(forged("any", "lengths 2\n3 1\n3 1\npatterns 1\n2 3\n"), SR_EDATA, "outside 4..5");
    CHECK_FAILS(forged("any", "lengths 2\n3 1\n1 2\npatterns 1\n1 3 1x2\n"), SR_EDATA,
                "outside 4..5");
    CHECK_FAILS(forged("any", "lengths 1\n3 1\npatterns 1\n1 3x1\n"), SR_EDATA, "outside 2..");
    CHECK_FAILS(forged("any", "lengths 2\n1 2\n3 1\npatterns 1\n1 1x2 3\n"), SR_EDATA,
                "not in descending order");
    CHECK_FAILS(forged("any", "lengths 1\n3 1\npatterns 2\n1 3\n"), SR_EDATA, "not an integer");
}

static sr_status load_and_pack(const char *solver) {
    OWNED(sr_plan) *plan = NULL;
    TRY_OWN(sr_histogram, h, load_set(&h, "glue_cola_128"));
    return sr_pack_solve(&plan, &h, &(sr_pack_opts){.solver = solver});
}

/* Any allocation from file to plan can fail, without leaks or partial results. */
static void out_of_memory(void) {
    const char *const solvers[] = {"lpfhp", "spfhp", "ffd", "bfd", "bpcc", "none"};
    for (int s = 0; s < 6; s++) CHECK_STARVED(false, load_and_pack(solvers[s]));
}

int main(void) {
    histograms();
    lengths();
    plans();
    contradictions();
    out_of_memory();
    CHECK(sr_mem_live() == 0);
    return CHECK_DONE();
}
