#include "core/tokenizer/roles.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/mem.h"

/* The keys of a tokenizer_config.json; the second is used where the first is absent. */
static const char *const keys[SR_TOKEN_SPECIALS][2] = {
    [SR_TOKEN_PAD] = {"pad_token", NULL},        [SR_TOKEN_UNK] = {"unk_token", NULL},
    [SR_TOKEN_CLS] = {"cls_token", "bos_token"}, [SR_TOKEN_SEP] = {"sep_token", "eos_token"},
    [SR_TOKEN_MASK] = {"mask_token", NULL},
};

/* Spellings of published tokenizers, the most specific first. */
static const char *const spellings[SR_TOKEN_SPECIALS][6] = {
    [SR_TOKEN_PAD] = {"[PAD]", "<pad>", "<|padding|>", "<|pad|>", "<|end_of_text|>",
                      "<|endoftext|>"},
    [SR_TOKEN_UNK] = {"[UNK]", "<unk>", "<|unk|>"},
    [SR_TOKEN_CLS] = {"[CLS]", "<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>"},
    [SR_TOKEN_SEP] = {"[SEP]", "</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"},
    [SR_TOKEN_MASK] = {"[MASK]", "<mask>", "<|mask|>", "<|mask_token|>"},
};

/* The spelling of a token: a string, or the `content` of an object. */
static const char *content_of(const json_t *value) {
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static sr_status take_role(sr_tokenizer *t, int role, const json_t *root, const char *key,
                           const char *name) {
    const char *token = key != NULL ? content_of(json_object_get(root, key)) : NULL;
    if (token == NULL || t->roles[role] >= 0) return SR_OK;
    t->roles[role] = sr_tokenizer_id(t, token, strlen(token));
    if (t->roles[role] >= 0) return SR_OK;
    return sr_fail(SR_EDATA, "%s: %s is '%.64s', which is not a token of the tokenizer", name, key,
                   token);
}

sr_status sr_roles_read(sr_tokenizer *t, const void *config, size_t size, const char *name) {
    json_error_t error;
    json_t *root;
    sr_status st = sr_json_load(&root, config, size, JSON_REJECT_DUPLICATES, &error);
    if (st == SR_ENOMEM) return sr_fail(st, "%s: out of memory while reading JSON", name);
    if (!json_is_object(root)) {
        json_decref(root);
        return sr_fail(SR_EDATA, "%s: not a JSON object%s%.120s", name, root == NULL ? ": " : "",
                       root == NULL ? error.text : "");
    }
    for (int role = 0; st == SR_OK && role < SR_TOKEN_SPECIALS; role++)
        for (int k = 0; st == SR_OK && k < 2; k++)
            st = take_role(t, role, root, keys[role][k], name);
    json_decref(root);
    return st;
}

void sr_roles_guess(sr_tokenizer *t) {
    const sr_frame *f = &t->post.frames[0];
    int32_t *roles = t->roles;
    if (roles[SR_TOKEN_CLS] < 0 && f->lead.count > 0) roles[SR_TOKEN_CLS] = f->lead.ids[0];
    if (roles[SR_TOKEN_SEP] < 0 && f->tail.count > 0)
        roles[SR_TOKEN_SEP] = f->tail.ids[f->tail.count - 1];
    for (int role = 0; role < SR_TOKEN_SPECIALS; role++)
        for (int i = 0; i < 6 && roles[role] < 0 && spellings[role][i] != NULL; i++)
            roles[role] = sr_tokenizer_id(t, spellings[role][i], strlen(spellings[role][i]));
}

sr_status sr_roles_write(char **out, size_t *size, const sr_tokenizer *t) {
    json_t *root = json_object();
    bool ok = root != NULL;
    for (int role = 0; ok && role < SR_TOKEN_SPECIALS; role++) {
        size_t length = 0;
        const char *token = sr_tokenizer_token(t, t->roles[role], &length);
        if (token == NULL) continue;
        ok = json_object_set_new(root, keys[role][0], json_stringn(token, length)) == 0;
    }
    char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (text == NULL) return sr_fail(SR_ENOMEM, "out of memory while writing the special tokens");
    sr_status st = sr_strdup(out, text);
    sr_json_free(text);
    *size = st == SR_OK ? strlen(*out) : 0;
    return st;
}
