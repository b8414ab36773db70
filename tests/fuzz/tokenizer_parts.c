/* tokenizer_parts.c - bytes choose the parts of a small tokenizer.json: normalizer, pre-tokenizer,
 * model, added tokens, post-processor, decoder; what is left of them is a text. */
#include "tests/fuzz/fuzz_tokenizer.h"

typedef struct vocab {
    const char *tokens[FUZZ_STRINGS];
    int number[FUZZ_STRINGS]; /* of each in fuzz_strings */
    bool has[FUZZ_STRINGS];
    int count;
} vocab;

/* The string that two others make, -1 if there is none: sought once. */
static int joined[FUZZ_STRINGS][FUZZ_STRINGS];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    for (int i = 0; i < FUZZ_STRINGS; i++)
        for (int k = 0; k < FUZZ_STRINGS; k++) {
            char both[64];
            snprintf(both, sizeof both, "%s%s", fuzz_strings[i], fuzz_strings[k]);
            joined[i][k] = -1;
            for (int n = 0; n < FUZZ_STRINGS; n++)
                if (strcmp(fuzz_strings[n], both) == 0) joined[i][k] = n;
        }
    return 0;
}

/* The first tokens always; of the others, one in two. */
static void choose(vocab *v, fuzz_maker *m) {
    int bits = 0;
    for (int i = 0; i < FUZZ_STRINGS; i++) {
        if (i % 8 == 0) bits = fuzz_draw(m, 256);
        if (i >= 4 && (bits >> i % 8 & 1) == 0) continue;
        v->has[i] = true;
        v->number[v->count] = i;
        v->tokens[v->count++] = fuzz_strings[i];
    }
}

static void put_merges(fuzz_maker *m, const vocab *v) {
    int put = 0;
    fuzz_put(m, ",\"merges\":[");
    for (int i = 0; i < v->count; i++)
        for (int k = 0; k < v->count; k++) {
            int both = joined[v->number[i]][v->number[k]];
            if (both < 0 || !v->has[both] || fuzz_draw(m, 4) == 3) continue;
            fuzz_put(m, "%s[\"%s\",\"%s\"]", put++ > 0 ? "," : "", v->tokens[i], v->tokens[k]);
        }
    fuzz_put(m, "]");
}

static void put_vocab(fuzz_maker *m, const vocab *v) {
    fuzz_put(m, ",\"vocab\":{");
    for (int i = 0; i < v->count; i++)
        fuzz_put(m, "%s\"%s\":%d", i > 0 ? "," : "", v->tokens[i], i);
    fuzz_put(m, "}");
}

static void put_scores(fuzz_maker *m, const vocab *v) {
    fuzz_put(m, ",\"vocab\":[");
    for (int i = 0; i < v->count; i++)
        fuzz_put(m, "%s[\"%s\",%d.5]", i > 0 ? "," : "", v->tokens[i], -fuzz_draw(m, 16));
    fuzz_put(m, "]");
}

static void put_model(fuzz_maker *m, const vocab *v) {
    static const char *const kinds[] = {"BPE", "Unigram", "WordPiece"};
    int kind = fuzz_draw(m, 3);
    fuzz_put(m, "\"model\":{\"type\":\"%s\"", kinds[kind]);
    if (kind == 1)
        put_scores(m, v);
    else
        put_vocab(m, v);
    if (kind == 0) {
        put_merges(m, v);
        fuzz_put(m, ",\"fuse_unk\":%s,\"byte_fallback\":%s,\"ignore_merges\":%s", fuzz_bool(m),
                 fuzz_bool(m), fuzz_bool(m));
        if (fuzz_draw(m, 2) != 0) fuzz_put(m, ",\"unk_token\":\"%s\"", v->tokens[v->count - 1]);
        if (fuzz_draw(m, 8) == 1) fuzz_put(m, ",\"continuing_subword_prefix\":\"##\"");
        if (fuzz_draw(m, 8) == 1) fuzz_put(m, ",\"end_of_word_suffix\":\"a\"");
    } else if (kind == 1) {
        fuzz_put(m, ",\"byte_fallback\":%s", fuzz_bool(m));
        if (fuzz_draw(m, 4) != 0) fuzz_put(m, ",\"unk_id\":%d", fuzz_draw(m, v->count));
    } else {
        fuzz_put(m,
                 ",\"unk_token\":\"%s\",\"continuing_subword_prefix\":\"##\","
                 "\"max_input_chars_per_word\":%d",
                 v->tokens[v->count - 1], fuzz_draw(m, 20));
    }
    fuzz_put(m, "}");
}

static void put_added(fuzz_maker *m, const vocab *v) {
    static const char *const more[] = {"<mask>", "aab", "[x]", "\u2581\u2581\u2581", "\\n\\n"};
    int count = fuzz_draw(m, 4), next = v->count;
    fuzz_put(m, "\"added_tokens\":[");
    for (int i = 0; i < count; i++) {
        int inside = fuzz_draw(m, 2) != 0, id = inside ? fuzz_draw(m, v->count) : next++;
        fuzz_put(m,
                 "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":%s,\"lstrip\":%s,\"rstrip\":%s,"
                 "\"normalized\":%s,\"special\":%s}",
                 i > 0 ? "," : "", id, inside ? v->tokens[id] : more[(id + v->count) % 5],
                 fuzz_bool(m), fuzz_bool(m), fuzz_bool(m), fuzz_bool(m), fuzz_bool(m));
    }
    fuzz_put(m, "]");
}

static void put_ends(fuzz_maker *m, const vocab *v) {
    static const char *const decoders[] = {
        "null",
        "{\"type\":\"ByteLevel\"}",
        "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"always\","
        "\"split\":true}",
        "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
        "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
        "\"\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
        "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}",
    };
    fuzz_put(m, ",\"post_processor\":");
    int kind = fuzz_draw(m, 3), cls = fuzz_draw(m, v->count), sep = fuzz_draw(m, v->count);
    if (kind == 0)
        fuzz_put(m, "null");
    else
        fuzz_put(m,
                 "{\"type\":\"RobertaProcessing\",\"sep\":[\"x\",%d],\"cls\":[\"y\",%d],"
                 "\"trim_offsets\":%s,\"add_prefix_space\":%s}",
                 sep, cls, fuzz_bool(m), fuzz_bool(m));
    fuzz_put(m, ",\"decoder\":%s,", decoders[fuzz_draw(m, 5)]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static fuzz_maker m;
    vocab v = {0};
    m.bytes = bytes, m.size = size, m.used = 0;
    bool specials = fuzz_draw(&m, 2) != 0;
    choose(&v, &m);
    fuzz_put(&m, "{");
    put_added(&m, &v);
    fuzz_put(&m, ",\"normalizer\":");
    fuzz_sequence(&m, "normalizers", fuzz_normalizer_step);
    fuzz_put(&m, ",\"pre_tokenizer\":");
    fuzz_sequence(&m, "pretokenizers", fuzz_pretokenizer_step);
    put_ends(&m, &v);
    put_model(&m, &v);
    fuzz_put(&m, "}");
    sr_tokenizer *t = NULL;
    sr_status status =
        sr_tokenizer_parse(&t, m.text, m.used, "fuzz", &(sr_tokenizer_opts){.specials = specials});
    if (!fuzz_accepted(status, t)) return 0;
    fuzz_check_text(t, m.bytes, m.size);
    sr_tokenizer_release(t);
    return 0;
}
