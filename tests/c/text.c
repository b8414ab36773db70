/* text.c - malformed vocabularies, failing allocations, tokenizers shared by threads. */
#include <pthread.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/unicode/chars.h"
#include "core/tokenizer/encode.h"
#include "core/text/sentence.h"
#include "core/tokenizer/train.h"
#include "core/unicode/utf8.h"
#include "tests/support/fail.h"

OWNER(sr_vocab, sr_vocab_release)
OWNER(sr_tokenizer, sr_tokenizer_release)
OWNER(sr_source, sr_source_close)

#define SPECIALS "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
#define GOLDEN "tests/data/tokenizer/"

static sr_status parse(const char *text, size_t size) {
    OWNED(sr_vocab) *v;
    return sr_vocab_parse(&v, text, size, "v.txt");
}

#define PARSE(text) parse(text, sizeof(text) - 1)

static void hostile_vocabularies(void) {
    CHECK_OK(PARSE(SPECIALS "a\n##b\n"));
    CHECK_OK(PARSE(SPECIALS "a\n##b")); /* the last line feed is optional */
    CHECK_OK(PARSE("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\na"));
    CHECK_OK(PARSE(SPECIALS "a\0b\n")); /* odd, but a token */
    CHECK_FAILS(PARSE(""), SR_EDATA, "empty");
    CHECK_FAILS(PARSE(SPECIALS "a\n\nb\n"), SR_EDATA, "v.txt:7: the line is empty");
    CHECK_FAILS(PARSE(SPECIALS "a\nb\na\n"), SR_EDATA, "v.txt:8: duplicate of the token in line 6");
    CHECK_FAILS(PARSE(SPECIALS "a\n\xFF\n"), SR_EDATA, "v.txt:7: the token is not valid UTF-8");
    CHECK_FAILS(PARSE(SPECIALS "a\r\nb\n"), SR_EDATA, "v.txt:6: the line ends in CR LF");
    CHECK_FAILS(PARSE("a\r\nb\n"), SR_EDATA, "v.txt:2: the line ends in LF");
    CHECK_FAILS(PARSE("[PAD]\n[UNK]\n[CLS]\nx\n"), SR_EDATA, "none of the 4 lines is [SEP] [MASK]");
    CHECK_FAILS(PARSE("[pad]\n"), SR_EDATA, "[PAD] [UNK] [CLS] [SEP] [MASK]");

    static char text[1024] = SPECIALS;
    size_t at = strlen(text);
    memset(text + at, 'x', 513);
    CHECK_OK(parse(text, at + 512));
    CHECK_FAILS(parse(text, at + 513), SR_EDATA, "v.txt:6: the token has 513 bytes");
    sr_vocab *v;
    CHECK_FAILS(sr_vocab_load(&v, GOLDEN "nothing"), SR_ENOENT, "nothing");
    CHECK_FAILS(sr_vocab_load(&v, GOLDEN), SR_EDATA, "directory");
}

static void too_many_lines(void) {
    size_t lines = SR_VOCAB_LIMIT + 1, size = 8 * lines;
    char *text = malloc(size + 1);
    for (size_t i = 0; i < lines; i++) snprintf(text + 8 * i, 9, "%07zx\n", i);
    CHECK_FAILS(parse(text, size), SR_EDATA, "more than 1048576 tokens");
    memcpy(text, SPECIALS "\n", sizeof SPECIALS); /* 32 bytes: an empty line, and no zero */
    CHECK_FAILS(parse(text, size - 24), SR_EDATA, "v.txt:6: the line is empty");
    free(text);
}

static void lookups(void) {
    OWN(sr_vocab, *v, sr_vocab_load(&v, GOLDEN "vocab.txt"));
    CHECK(sr_vocab_size(v) == 30522);
    long wrong = 0;
    for (int32_t id = 0; id < sr_vocab_size(v); id++) {
        size_t size;
        const char *token = sr_vocab_token(v, id, &size);
        wrong += sr_vocab_id(v, token, size) != id;
    }
    CHECK(wrong == 0);
    CHECK(sr_vocab_id(v, "", 0) == -1 && sr_vocab_id(v, "no such token", 13) == -1);
    CHECK(sr_vocab_special(v, SR_TOKEN_MASK) == 103);
    char path[] = "/tmp/seqrun-vocab-XXXXXX";
    int fd = mkstemp(path);
    CHECK_OK(sr_vocab_save(v, path));
    OWN(sr_vocab, *again, sr_vocab_load(&again, path));
    CHECK(sr_vocab_fingerprint(again) == sr_vocab_fingerprint(v));
    close(fd);
    unlink(path);
}

/* ---- memory that runs out ---- */

static sr_status tokenize_twice(sr_vocab *v, bool spans) {
    static const char line[] =
        "Unaffordable na\xC3\xAFve \xE4\xB8\xAD [MASK] \xFF words, "
        "and one of more than a hundred characters: "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    sr_tokens k = {.want_spans = spans};
    TRY_OWN(sr_tokenizer, *t,
            sr_tokenizer_new(&t, v, &(sr_tokenizer_opts){.lowercase = true, .specials = true}));
    sr_status st = SR_OK;
    for (int i = 0; i < 100 && st == SR_OK; i++) {
        size_t before = k.count;
        st = sr_tokenize(&k, t, line, sizeof line - 1);
        if (st != SR_OK && k.count != before) st = SR_EINTERNAL;
    }
    sr_tokens_free(&k);
    return st;
}

static sr_status scenario_vocab(void) {
    TRY_OWN(sr_vocab, *v, sr_vocab_load(&v, GOLDEN "vocab.txt"));
    SR_TRY(tokenize_twice(v, false));
    return tokenize_twice(v, true);
}

static const char *gz_path;

static sr_status open_gz(sr_source **s) {
    const char *paths[] = {gz_path, GOLDEN "README.md", "tests/fuzz/corpus/sentences"};
    return sr_source_open(s, paths, 3, &(sr_source_opts){.any_bytes = true});
}

static sr_status scenario_train(void) {
    OWNED(sr_vocab) *v = NULL;
    TRY_OWN(sr_source, *s, open_gz(&s));
    sr_vocab_train_opts opts = {
        .size = 4000, .lowercase = true, .alphabet = 200, .word_limit = 600};
    return sr_vocab_train(&v, s, &opts, NULL, NULL);
}

static sr_status scenario_sentences(void) {
    sr_sentences *q = NULL;
    TRY_OWN(sr_source, *s, open_gz(&s));
    sr_sentence one = {.event = SR_TEXT_SENTENCE};
    sr_status st = sr_sentences_new(&q, s, NULL);
    while (st == SR_OK && one.event != SR_TEXT_END) st = sr_sentences_next(q, &one);
    sr_sentences_free(q);
    return st;
}

static const char *records_path;

/* Lines of records, of which a condition leaves out one. */
static sr_status scenario_records(void) {
    static char lang[] = "lang", en[] = "en", score[] = "score", half[] = "0.5";
    sr_condition is_english = {.kind = SR_WHERE_COMPARE, .name = lang, .text = en};
    sr_condition is_good = {.kind = SR_WHERE_COMPARE,
                            .name = score,
                            .text = half,
                            .compare = SR_MORE,
                            .numeric = true,
                            .number = 0.5};
    sr_condition both = {.kind = SR_WHERE_AND, .left = &is_english, .right = &is_good};
    sr_source_opts opts = {.line_limit = 16, .records = {.field = "text", .where = &both}};
    sr_line line = {.ends = true};
    size_t size = 0;
    TRY_OWN(sr_source, *s, sr_source_open(&s, &records_path, 1, &opts));
    sr_status st;
    do {
        st = sr_source_line(s, &line);
        size += line.size;
    } while (st == SR_OK && line.bytes != NULL);
    sr_source_counts c = sr_source_count(s);
    if (st == SR_OK && (size != 50 || c.records != 3 || c.left_out != 1)) st = SR_EINTERNAL;
    return st;
}

static void make_records(char path[]) {
    static const char text[] =
        "{\"text\": \"The cat sat on the mat.\\nThe dog.\", \"lang\": \"en\", \"score\": 0.75}\n"
        "{\"text\": \"no\", \"lang\": \"en\", \"score\": 0.25}\n"
        "{\"lang\": \"en\", \"score\": 1, \"text\": \"\\u00e9t\\u00e9, a long line.\"}\n";
    int fd = mkstemps(path, 6);
    CHECK(write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    close(fd);
    records_path = path;
}

static sr_status swallow(void *context, const void *bytes, size_t size) {
    (void)bytes;
    *(size_t *)context += size;
    return SR_OK;
}

static sr_status scenario_encode(sr_vocab *v) {
    sr_encode_counts counts;
    size_t size = 0;
    TRY_OWN(sr_tokenizer, *t, sr_tokenizer_new(&t, v, &(sr_tokenizer_opts){.lowercase = true}));
    TRY_OWN(sr_source, *s, open_gz(&s));
    sr_encode_opts opts = {.ids = true, .offsets = true, .json = true, .frame = true};
    return sr_encode(s, t, &opts, NULL, swallow, &size, &counts);
}

/* A text of all characters, in the worst order for a sorted list: it takes no longer than others,
 * and the alphabet is its beginning. */
static void every_character(void) {
    char path[] = "/tmp/seqrun-alphabet-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "wb");
    for (int32_t cp = SR_UTF8_LAST; cp > 0; cp--) {
        uint8_t bytes[4];
        if (cp >= 0xD800 && cp < 0xE000) continue;
        fwrite(bytes, 1, (size_t)sr_utf8_encode(bytes, cp), f);
        if (cp % 50 == 0) fputc('\n', f);
    }
    CHECK(fclose(f) == 0);
    sr_vocab_train_counts counts;
    sr_vocab_train_opts opts = {.size = 2100, .alphabet = 1000};
    OWN(sr_source, *s, sr_source_open(&s, (const char *[]){path}, 1, NULL));
    OWN(sr_vocab, *v, sr_vocab_train(&v, s, &opts, NULL, &counts));
    CHECK(counts.words > 20000 && counts.out_of_reach > 10000);
    CHECK(sr_vocab_id(v, "!", 1) == SR_TOKEN_SPECIALS && sr_vocab_id(v, "z", 1) > 0);
    CHECK(sr_vocab_id(v, "\xF0\x9F\x98\x80", 4) == -1);
    unlink(path);
}

/* The CJK ranges of Hugging Face's BertNormalizer have a gap that Google's do not. */
static void ideographs_stand_alone(void) {
    static const int32_t range[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                       {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
                                       {0x2F800, 0x2FA1F}};
    int wrong = 0;
    for (int32_t cp = 0; cp <= SR_UTF8_LAST; cp++) {
        bool inside = false;
        for (size_t i = 0; i < sizeof range / sizeof *range; i++)
            inside = inside || (cp >= range[i][0] && cp <= range[i][1]);
        wrong += sr_char_is_cjk(cp) != inside;
    }
    CHECK(wrong == 0);
}

static void unknown_marks_are_counted(void) {
    sr_tokens tokens = {0};
    OWN(sr_vocab, *v, sr_vocab_parse(&v, SPECIALS "a\n!\n", strlen(SPECIALS "a\n!\n"), "v.txt"));
    OWN(sr_tokenizer, *t, sr_tokenizer_new(&t, v, &(sr_tokenizer_opts){.lowercase = true}));
    CHECK_OK(sr_tokenize(&tokens, t, "a!? b", 5));
    CHECK(tokens.count == 4 && tokens.unknown == 2);
    sr_tokens_free(&tokens);
}

/* ---- threads ---- */

typedef struct reader {
    const sr_tokenizer *t;
    const char *text;
    size_t size;
    int32_t *ids;
    size_t count;
} reader;

static void *read_all(void *context) {
    reader *r = context;
    sr_tokens k = {0};
    for (int i = 0; i < 3; i++) {
        k.count = 0;
        if (sr_tokenize(&k, r->t, r->text, r->size) != SR_OK) return NULL;
    }
    r->ids = malloc((k.count + 1) * sizeof *r->ids);
    memcpy(r->ids, k.ids, k.count * sizeof *r->ids);
    r->count = k.count;
    sr_tokens_free(&k);
    return NULL;
}

static void shared_tokenizer(void) {
    void *text;
    size_t size;
    CHECK_OK(sr_file_read(&text, &size, GOLDEN "text.txt", 1 << 20));
    OWN(sr_vocab, *v, sr_vocab_load(&v, GOLDEN "vocab.txt"));
    OWN(sr_tokenizer, *t,
        sr_tokenizer_new(&t, v, &(sr_tokenizer_opts){.lowercase = true, .specials = true}));
    reader readers[8];
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        readers[i] = (reader){t, text, size, NULL, 0};
        pthread_create(&threads[i], NULL, read_all, &readers[i]);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        CHECK(readers[i].count > 20000 && readers[i].count == readers[0].count);
        CHECK(memcmp(readers[i].ids, readers[0].ids, readers[0].count * sizeof(int32_t)) == 0);
    }
    for (int i = 0; i < 8; i++) free(readers[i].ids);
    sr_free(text);
}

/* A buffer used by two tokenizers in turn has the right ids for each. */
static void buffer_changes_hands(void) {
    sr_tokens k = {0};
    OWN(sr_vocab, *v, sr_vocab_load(&v, GOLDEN "vocab.txt"));
    OWN(sr_tokenizer, *a, sr_tokenizer_new(&a, v, &(sr_tokenizer_opts){.lowercase = true}));
    OWN(sr_tokenizer, *b, sr_tokenizer_new(&b, v, &(sr_tokenizer_opts){.lowercase = false}));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sr_tokenize(&k, a, "HELLO", 5));
        CHECK_OK(sr_tokenize(&k, b, "hello", 5));
        CHECK_OK(sr_tokenize(&k, b, "HELLO", 5));
    }
    size_t each = k.count / 3;
    for (size_t i = 0; i < 3; i++) {
        const int32_t *ids = k.ids + i * each;
        CHECK(ids[0] == 7592 && ids[1] == 7592 && ids[2] != 7592);
    }
    sr_tokens_free(&k);
}

static void make_gz(char path[]) {
    char command[256];
    int fd = mkstemp(path);
    snprintf(command, sizeof command, "gzip -c LICENSE > %s", path);
    CHECK(system(command) == 0);
    close(fd);
    gz_path = path;
}

int main(void) {
    char path[] = "/tmp/seqrun-text-XXXXXX";
    char records[] = "/tmp/seqrun-text-XXXXXX.jsonl";
    make_gz(path);
    make_records(records);
    hostile_vocabularies();
    too_many_lines();
    lookups();
    CHECK_SPARED(false, scenario_vocab());
    CHECK_SPARED(false, scenario_sentences());
    CHECK_SPARED(false, scenario_records());
    CHECK_SPARED(false, scenario_train());
    OWNED(sr_vocab) *v; /* loading it has its own scenario */
    CHECK_OK(sr_vocab_load(&v, GOLDEN "vocab.txt"));
    CHECK_SPARED(false, scenario_encode(v));
    every_character();
    ideographs_stand_alone();
    unknown_marks_are_counted();
    shared_tokenizer();
    buffer_changes_hands();
    unlink(path);
    unlink(records);
    return CHECK_DONE();
}
