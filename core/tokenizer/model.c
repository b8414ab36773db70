#include "core/tokenizer/model.h"

static const sr_model_kind *const kinds[] = {
#define ADDRESS(name) &sr_model_##name,
    SR_MODELS(ADDRESS)};

enum { KINDS = sizeof kinds / sizeof *kinds };

sr_status sr_model_vocab(sr_pieces *pieces, const sr_json *model) {
    sr_json vocab = sr_json_key(model, "vocab");
    SR_TRY(sr_json_object(&vocab));
    size_t count = json_object_size(vocab.value);
    int64_t most = -1;
    for (int pass = 0; pass < 2; pass++) {
        void *i = json_object_iter((json_t *)vocab.value);
        for (; i != NULL; i = json_object_iter_next((json_t *)vocab.value, i)) {
            const char *token = json_object_iter_key(i);
            size_t size = json_object_iter_key_len(i);
            sr_json at = {json_object_iter_value(i), &vocab, token, 0};
            int64_t id = json_integer_value(at.value);
            if (!json_is_integer(at.value) || id < 0 || id >= SR_TOKENIZER_ID_LIMIT)
                return sr_json_refuse(&at, "is not an id");
            if (size > SR_TOKENIZER_TOKEN_LIMIT)
                return sr_json_refuse(&at, "has %zu bytes; the maximum is %d", size,
                                      SR_TOKENIZER_TOKEN_LIMIT);
            if (pass == 0) {
                most = id > most ? id : most;
                continue;
            }
            int32_t known;
            if (pieces->start[id] != UINT32_MAX)
                return sr_json_refuse(&at, "is %lld, the id of another token", (long long)id);
            SR_TRY(sr_pieces_add(pieces, token, size, (int32_t)id, &known));
        }
        if (most >= 4 * (int64_t)count + 65536)
            return sr_json_refuse(&vocab, "has %zu tokens with ids up to %lld", count,
                                  (long long)most);
        if (pass == 0) SR_TRY(sr_pieces_init(pieces, (int32_t)most + 1, count));
    }
    return SR_OK;
}

sr_status sr_model_read(sr_model **out, uint64_t *number, sr_pieces *pieces, const sr_json *at,
                        bool bytes) {
    const char *names[KINDS + 1] = {NULL};
    int which;
    *out = NULL;
    for (int i = 0; i < KINDS; i++) names[i] = kinds[i]->name;
    SR_TRY(sr_json_object(at));
    SR_TRY(sr_json_choice(&which, at, "type", names));
    SR_TRY(sr_json_only(at, kinds[which]->keys));
    if (bytes && !kinds[which]->bytes)
        return sr_json_refuse(at, "is not BPE, with a pre-tokenizer ByteLevel: not supported");
    sr_model *m = NULL;
    SR_TRY(sr_alloc((void **)&m, 1, kinds[which]->size));
    m->kind = kinds[which];
    m->pieces = pieces;
    m->unknown = -1;
    sr_status st = m->kind->read(m, pieces, at, bytes);
    if (st == SR_OK)
        *out = m;
    else
        sr_model_free(m);
    *number = (uint64_t)which;
    return st;
}

void sr_model_free(sr_model *m) {
    if (m != NULL && m->kind->free != NULL) m->kind->free(m);
    sr_free(m);
}
