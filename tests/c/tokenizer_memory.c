/* tokenizer_memory.c - what a tokenizer.json may cost: the memory that tokenizer.h states, whatever
 * the file says. */
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/support/check.h"

#define START "{\"version\":\"1.0\",\"added_tokens\":[],"
#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}"

/* A text that is put together. */
typedef struct text {
    char *bytes;
    size_t size, room;
} text;

static void put(text *t, const char *more) {
    size_t size = strlen(more);
    if (t->size + size + 1 > t->room) {
        t->room = 2 * (t->size + size) + 64;
        t->bytes = realloc(t->bytes, t->room);
    }
    memcpy(t->bytes + t->size, more, size + 1);
    t->size += size;
}

static void put_times(text *t, const char *more, int times) {
    for (int i = 0; i < times; i++) put(t, more);
}

/* Reads a file: its status, and the most memory that it took, which must be as stated. */
static sr_status reads(const text *t, sr_mem_count *count) {
    sr_tokenizer *tokenizer = NULL;
    sr_tokenizer_opts opts = {.specials = true};
    int64_t live = sr_mem_live();
    sr_mem_watch(count, INT64_MAX);
    sr_status st = sr_tokenizer_parse(&tokenizer, t->bytes, t->size, "t.json", &opts);
    CHECK(st != SR_OK || count->held > 0);
    sr_tokenizer_release(tokenizer);
    sr_mem_watch_end(count);
    CHECK(count->held == 0 && sr_mem_live() == live);
    int64_t most = SR_TOKENIZER_BASE + SR_TOKENIZER_MULTIPLE * (int64_t)t->size;
    CHECK(count->peak <= most + (int64_t)t->size + 4096); /* the copy of the file, and rounding */
    return st;
}

static void refuses(text *t, const char *words) {
    sr_mem_count count;
    CHECK_FAILS(reads(t, &count), SR_EDATA, words);
    printf("  %zu bytes, at most %.1f MB: %s\n", t->size, (double)count.peak / 1e6, sr_message());
    free(t->bytes);
    *t = (text){0};
}

static void accepts(text *t) {
    sr_mem_count count;
    CHECK_OK(reads(t, &count));
    printf("  %zu bytes, at most %.1f MB\n", t->size, (double)count.peak / 1e6);
    free(t->bytes);
    *t = (text){0};
}

static void check_trees(void) {
    text t = {0};
    put(&t, START "\"decoder\":");
    put_times(&t, "[", 100000);
    refuses(&t, "depth");
    put(&t, START "\"truncation\":[{}");
    put_times(&t, ",{}", 300000);
    put(&t, "]," BPE);
    accepts(&t);
    put(&t, START "\"padding\":[[]");
    put_times(&t, ",[]", 300000);
    put(&t, "]," BPE);
    accepts(&t);
    put(&t, START "\"normalizer\":");
    put_times(&t, "{\"type\":\"Sequence\",\"normalizers\":[", 500);
    put_times(&t, "]}", 500);
    put(&t, "," BPE);
    refuses(&t, "nested too deep");
}

static void check_ids(void) {
    text t = {0};
    put(&t, START "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":16777215},\"merges\":[]}}");
    refuses(&t, "has 1 tokens with ids up to 16777215");
    put(&t, START "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":65539},\"merges\":[]}}");
    accepts(&t);
    put(&t, "{\"added_tokens\":[{\"id\":16777215,\"content\":\"x\"}]," BPE);
    refuses(&t, "has ids up to 16777215");
    put(&t,
        START "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999999999999},\"merges\":[]}}");
    refuses(&t, "model.vocab.a is not an id");
}

/* Tokens whose trie has many children in few places. */
static void check_unigram(void) {
    text t = {0};
    put(&t, START "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0]");
    for (int i = 0; i < 20000; i++) {
        char entry[40];
        int a = 0x100 + i % 700, b = 0x100 + i * 37 % 1600 + i / 1600;
        snprintf(entry, sizeof entry, ",[\"\\u%04x\\u%04x%d\",0]", (unsigned)a, (unsigned)b, i);
        put(&t, entry);
    }
    put(&t, "]}}");
    accepts(&t);
}

static void check_patterns(void) {
    text t = {0};
    put(&t, START "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":"
                  "{\"Regex\":\"");
    put_times(&t, "\\\\P{L}", 680);
    put(&t, "\"}}," BPE);
    refuses(&t, "needs more than");
    put(&t, START "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 30; i++) {
        put(&t, i > 0 ? "," : "");
        put(&t, "{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"Regex\":\"");
        put_times(&t, "\\\\p{L}", 12);
        put(&t, "\"}}");
    }
    put(&t, "]}," BPE);
    accepts(&t);
}

/* A pattern that tries every way gives up, and says so. */
static void check_steps(void) {
    static const char file[] =
        START "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
              "\"pattern\":{\"Regex\":\"(?:(?:a|a)(?:a|a))+(?:b|c)\"}}," BPE;
    sr_tokenizer *t = NULL;
    sr_tokens tokens = {0};
    char line[200];
    memset(line, 'a', sizeof line);
    CHECK_OK(sr_tokenizer_parse(&t, file, sizeof file - 1, "t.json", &(sr_tokenizer_opts){0}));
    CHECK_FAILS(sr_tokenize(&tokens, t, line, sizeof line), SR_EDATA, "steps");
    CHECK(tokens.count == 0);
    sr_tokens_free(&tokens);
    sr_tokenizer_release(t);
}

static void check_map(void) {
    text t = {0};
    put(&t, START "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
    put(&t, "/P//fw"); /* a size of 2 GiB */
    put_times(&t, "AAAA", 500000);
    put(&t, "\"}," BPE);
    refuses(&t, "is not a SentencePiece map");
}

/* Real ones stay far below. */
static void check_real(void) {
    static const char *const names[] = {"roberta", "modernbert", "xlm_roberta"};
    for (int i = 0; i < 3; i++) {
        char path[100];
        void *bytes;
        size_t size;
        snprintf(path, sizeof path, "tests/data/tokenizer/%s.json", names[i]);
        CHECK_OK(sr_file_read(&bytes, &size, path, 1 << 24));
        sr_mem_count count;
        text t = {bytes, size, 0};
        CHECK_OK(reads(&t, &count));
        CHECK(count.peak < 40 * (int64_t)size + 200000);
        printf("  %s: %zu bytes, at most %lld\n", names[i], size, (long long)count.peak);
        sr_free(bytes);
    }
}

int main(void) {
    check_trees();
    check_ids();
    check_unigram();
    check_patterns();
    check_steps();
    check_map();
    check_real();
    return CHECK_DONE();
}
