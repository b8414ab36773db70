/* collate.h - collators make the targets of a batch from its sequences.
 *
 * A collator states the maximum number of items of a sequence, and appends them when the tokens are
 * in the buffer.  It may change tokens, as masking does.  For each sequence, collators run in
 * order, on any of the loader's workers.
 *
 *     mlm      masked tokens (mask.h)
 *     causal   every token but the first of a sequence, read from the one before it
 *     tokens   every token, and its id before later collators change it
 *     nsp      1 if B does not follow A, 0 if it does
 *     column   a field of the data set (field.h): values per token or per example, or the two ends
 *              of a span
 *     deferred nothing: sr_batch_set_target() is called when the update is delivered
 */
#pragma once

#include "core/batch/fim.h"
#include "core/batch/mask.h"
#include "core/batch/target.h"
#include "core/data/examples.h"

SR_BEGIN_C

enum { SR_TARGET_NAME = 64 }; /* bytes of a name at most */

#define SR_IGNORE (-100) /* the usual label of tokens without a target */

typedef struct sr_target_opts {
    const char *name;
    const char *kind;   /* NULL: "column" */
    const char *column; /* column: the field; NULL: `name` */
    const char *reads;  /* "rows", "sequences", "spans"; NULL: by the field's shape */
    const char *type;   /* deferred: "i32" (NULL) or "f32" */
    int32_t columns;    /* deferred: labels per item, 0: 1 */
    bool has_ignore;    /* false: SR_IGNORE for integers; NaN is always ignored */
    double ignore;      /* items with this label are ignored */
    bool drop_outside;  /* spans: ignore those outside the sequence; else [CLS] */
    double causal;      /* fraction of the sequences that are causal; causal: 0 is all of them; mlm:
                           above 0 the others are masked, and read one token earlier */
    sr_fim fim;         /* causal: fill-in-the-middle */
    bool fixed;         /* mlm: a sequence has the same masked positions in every epoch */
    sr_mean mean;
} sr_target_opts;

typedef struct sr_collator sr_collator;

/* A sequence whose tokens are in the buffer. */
typedef struct sr_site {
    const sr_dataset *data;
    const sr_examples *examples;
    sr_example example; /* of `examples`, possibly truncated */
    uint32_t uid, epoch;
    double mask;        /* fraction of masked tokens; 0: the masker's */
    int32_t stage;      /* concepts up to it are masked; 0: none */
    int32_t start, len; /* rows */
    int32_t *ids;       /* (len) */
    int32_t *scratch;   /* (len) */
    uint8_t *flags;     /* (len) scratch too */
    uint8_t *roles;     /* (len) and this */
} sr_site;

typedef struct sr_collator_kind {
    const char *name;
    sr_status (*open)(sr_collator *c, const sr_dataset *d, const sr_target_opts *opts);
    int64_t (*measure)(const sr_collator *c, int32_t len); /* maximum items per sequence */
    sr_status (*fill)(sr_target *t, const sr_collator *c, const sr_site *s);
    /* Items of a sequence without reading its tokens; negative: call fill.  May be NULL. */
    int64_t (*count)(const sr_collator *c, const sr_site *s);
    bool tokens; /* fill reads or changes the tokens */
    bool deferred;
} sr_collator_kind;

struct sr_collator {
    char name[SR_TARGET_NAME + 1];
    const sr_collator_kind *kind;
    sr_reads reads;
    sr_label_type type;
    int32_t columns;
    sr_mean mean;
    const sr_masker *masker; /* of all collators; borrowed */
    const sr_field *field;
    bool ignores, drop_outside, fixed;
    double ignore, causal;
    sr_fim fim;
    bool masks; /* its items are masked tokens */
};

extern const sr_collator_kind sr_collate_mlm, sr_collate_causal, sr_collate_tokens,
    sr_collate_column;

/* Whether a sequence is one of the fraction `causal`: the same for all collators with it. */
bool sr_site_is_causal(const sr_collator *c, const sr_site *s);

typedef struct sr_collators {
    sr_collator *collator;
    int count;
    bool deferred; /* some target is set when the update is delivered */
    bool keep_ids; /* batches keep the tokens as they were before masking */
} sr_collators;

/* Makes collators; `masker` and `d` must outlive them.
 *
 * Errors: SR_EINVAL  a name that is empty, too long or a duplicate; an unsuitable kind,
 * field or shape; two kinds that mask; an invalid masker; SR_ENOMEM */
sr_status sr_collators_open(sr_collators *out, const sr_dataset *d, const sr_masker *masker,
                            const sr_target_opts *opts, int count);
void sr_collators_close(sr_collators *c);

/* The default targets, at most 2: "mlm" if tokens are masked; "nsp" for drawn pairs, or the field
 * "label" of fixed examples. */
int sr_targets_usual(sr_target_opts *out, const sr_dataset *d, bool mask, bool nsp, sr_mean mean);

SR_END_C
