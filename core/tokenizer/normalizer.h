/* normalizer.h - the normalizer of a tokenizer.json: a list of steps, each from text to text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/charsmap.h"
#include "core/tokenizer/json_at.h"
#include "core/tokenizer/pattern.h"
#include "core/unicode/text_run.h"

SR_BEGIN_C

typedef enum sr_normal_kind {
    SR_NORMAL_BERT,
    SR_NORMAL_NFC,
    SR_NORMAL_NFD,
    SR_NORMAL_NFKC,
    SR_NORMAL_NFKD,
    SR_NORMAL_LOWERCASE,
    SR_NORMAL_STRIP_ACCENTS,
    SR_NORMAL_STRIP,
    SR_NORMAL_REPLACE,
    SR_NORMAL_PREPEND,
    SR_NORMAL_PRECOMPILED
} sr_normal_kind;

enum { SR_NORMAL_STEPS = 32 };

typedef struct sr_normal_step {
    sr_normal_kind kind;
    bool left, right;                    /* Strip */
    bool clean, chinese, accents, lower; /* BERT: `accents` strips them */
    sr_pattern *pattern;                 /* Replace */
    char *text;                          /* Replace, Prepend */
    size_t size;
    sr_charsmap *map;
} sr_normal_step;

typedef struct sr_normalizer {
    sr_normal_step steps[SR_NORMAL_STEPS];
    int count;
} sr_normalizer;

/* Reads a normalizer; absent is one without steps. */
sr_status sr_normalizer_read(sr_normalizer *n, const sr_json *at);
void sr_normalizer_free(sr_normalizer *n);

/* Whether spaces become U+2581, and nothing is put before a text. */
bool sr_normalizer_marks(const sr_normalizer *n);

/* Normalizes *text; `other` is a run to work with, which may change places with it. */
sr_status sr_normalize(sr_run *text, sr_run *other, const sr_normalizer *n, sr_matcher *matcher,
                       sr_changes *changes);

SR_END_C
