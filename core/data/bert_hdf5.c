#include "core/data/bert_hdf5.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/thread.h"
#include "core/data/field.h"
#include "core/data/hdf5.h"
#include "core/data/id_columns.h"

enum { IDS, MASK, SEGMENTS, POSITIONS, MASKED, LABELS, SETS };

static const char *const names[SETS] = {"input_ids",     "input_mask",
                                        "segment_ids",   "masked_lm_positions",
                                        "masked_lm_ids", "next_sentence_labels"};

enum { POLL = 4096 }; /* rows between two looks at the stop flag */

typedef struct job {
    sr_shard_writer *writer;
    sr_id_column ids;
    int a_tokens, b_tokens;
    sr_field_column next;
    int64_t cls, sep, mask;
    sr_ids_counts *counts;
    sr_hdf5 *file;
    sr_hdf5_set *set[SETS];
    const char *path;
    uint64_t row, columns;
    int64_t *id; /* (columns) of the row, without its masks */
} job;

static sr_status bad_row(const job *j, const char *what) {
    return sr_fail(SR_EDATA, "%s: row %" PRIu64 ": %s", j->path, j->row, what);
}

static sr_status open_sets(job *j) {
    for (int i = 0; i < SETS; i++) {
        SR_TRY(sr_hdf5_set_open(&j->set[i], j->file, names[i]));
        if (j->set[i] == NULL)
            return sr_fail(SR_EDATA,
                           "%s: no dataset '%s'; a file of NVIDIA's BERT data has input_ids, "
                           "input_mask, segment_ids, masked_lm_positions, masked_lm_ids and "
                           "next_sentence_labels",
                           j->path, names[i]);
        if (sr_hdf5_rows(j->set[i]) != sr_hdf5_rows(j->set[IDS]))
            return sr_fail(SR_EDATA, "%s: '%s' has %" PRIu64 " rows, but '%s' %" PRIu64, j->path,
                           names[i], sr_hdf5_rows(j->set[i]), names[IDS],
                           sr_hdf5_rows(j->set[IDS]));
    }
    j->columns = sr_hdf5_columns(j->set[IDS]);
    bool same = sr_hdf5_columns(j->set[MASK]) == j->columns &&
                sr_hdf5_columns(j->set[SEGMENTS]) == j->columns &&
                sr_hdf5_columns(j->set[POSITIONS]) == sr_hdf5_columns(j->set[MASKED]);
    if (same && j->columns >= 3) return sr_new(&j->id, j->columns);
    return sr_fail(SR_EDATA, "%s: the datasets have rows of different lengths", j->path);
}

/* The tokens of a row: input_mask is 1 for them, and 0 after them. */
static sr_status count_tokens(const job *j, uint64_t *tokens, const int64_t *mask) {
    uint64_t n = 0;
    while (n < j->columns && mask[n] == 1) n++;
    *tokens = n;
    for (; n < j->columns; n++)
        if (mask[n] != 0) return bad_row(j, "input_mask is not ones, then zeros");
    return SR_OK;
}

static sr_status undo_masks(job *j, uint64_t tokens, const int64_t *position,
                            const int64_t *masked) {
    uint64_t most = sr_hdf5_columns(j->set[POSITIONS]);
    for (uint64_t k = 0; k < most && position[k] != 0; k++) { /* 0 is [CLS], never masked */
        if (position[k] < 0 || (uint64_t)position[k] >= tokens)
            return bad_row(j, "masked_lm_positions is outside the row's tokens");
        j->id[position[k]] = masked[k];
        j->counts->left_out++;
    }
    for (uint64_t i = 0; i < tokens; i++)
        if (j->id[i] == j->mask)
            return bad_row(j,
                           "a [MASK] has no original in masked_lm_ids, or the file was made with "
                           "another vocabulary");
    return SR_OK;
}

/* Where B begins; `tokens` if there is none. */
static sr_status find_b(const job *j, uint64_t *b, uint64_t tokens, const int64_t *segment) {
    uint64_t n = 0;
    while (n < tokens && segment[n] == 0) n++;
    *b = n;
    for (; n < tokens; n++)
        if (segment[n] != 1) return bad_row(j, "segment_ids is not zeros, then ones");
    return SR_OK;
}

static sr_status frame_wrong(const job *j) {
    return sr_fail(SR_EDATA,
                   "%s: row %" PRIu64 " is not [CLS] A [SEP] B [SEP] with the ids of this "
                   "vocabulary, %" PRId64 " and %" PRId64 "; give the vocabulary that the file was "
                   "made with",
                   j->path, j->row, j->cls, j->sep);
}

static sr_status append(job *j, const int64_t *ids, uint64_t count) {
    return sr_id_column_append(&j->ids, ids, count, j->path, "row", j->row);
}

static sr_status write_row(job *j) {
    const int64_t *row[SETS];
    uint64_t tokens, b;
    for (int i = 0; i < SETS; i++) SR_TRY(sr_hdf5_row(&row[i], j->set[i], j->row));
    SR_TRY(count_tokens(j, &tokens, row[MASK]));
    memcpy(j->id, row[IDS], j->columns * sizeof *j->id);
    SR_TRY(undo_masks(j, tokens, row[POSITIONS], row[MASKED]));
    SR_TRY(find_b(j, &b, tokens, row[SEGMENTS]));
    if (tokens < 3 || b < 3 || j->id[0] != j->cls || j->id[tokens - 1] != j->sep ||
        j->id[b - 1] != j->sep || b + 1 == tokens)
        return frame_wrong(j);
    uint32_t a_tokens = (uint32_t)(b - 2);
    uint32_t b_tokens = b < tokens ? (uint32_t)(tokens - 1 - b) : 0;
    int64_t label = row[LABELS][0];
    if (label != 0 && label != 1) return bad_row(j, "next_sentence_labels is neither 0 nor 1");
    int32_t next = (int32_t)label;
    SR_TRY(append(j, j->id + 1, a_tokens));
    if (b_tokens > 0) SR_TRY(append(j, j->id + b, b_tokens));
    SR_TRY(sr_shard_append(j->writer, j->a_tokens, &a_tokens, 1));
    SR_TRY(sr_shard_append(j->writer, j->b_tokens, &b_tokens, 1));
    j->counts->examples++;
    j->counts->tokens += (uint64_t)a_tokens + b_tokens;
    return sr_shard_append(j->writer, j->next.values, &next, 1);
}

static sr_status write_rows(job *j) {
    for (j->row = 0; j->row < sr_hdf5_rows(j->set[IDS]); j->row++) {
        if (j->row % POLL == 0 && sr_stop_requested())
            return sr_fail(SR_ESTOP, "prepare: stopped on request; no data set was written");
        SR_TRY(write_row(j));
    }
    return SR_OK;
}

static sr_status import_file(job *j, const char *path) {
    j->path = path;
    SR_TRY(sr_hdf5_open(&j->file, path));
    sr_status st = open_sets(j);
    if (st == SR_OK) st = write_rows(j);
    for (int i = 0; i < SETS; i++) sr_hdf5_set_close(j->set[i]);
    memset(j->set, 0, sizeof j->set);
    sr_hdf5_close(j->file);
    sr_free(j->id);
    j->id = NULL;
    j->counts->files += st == SR_OK;
    return st;
}

sr_status sr_bert_hdf5_import(sr_ids_counts *counts, sr_shard_writer *w, const char *const *paths,
                              size_t count, const sr_tokenizer *tokenizer) {
    job j = {.writer = w, .counts = counts};
    *counts = (sr_ids_counts){0};
    j.cls = sr_tokenizer_special(tokenizer, SR_TOKEN_CLS);
    j.sep = sr_tokenizer_special(tokenizer, SR_TOKEN_SEP);
    j.mask = sr_tokenizer_special(tokenizer, SR_TOKEN_MASK);
    if (j.cls < 0 || j.sep < 0)
        return sr_fail(SR_EDATA,
                       "prepare: the tokenizer has no [CLS] or [SEP], which BERT's data in "
                       "HDF5 has around its segments");
    SR_TRY(sr_id_column_add(&j.ids, w, tokenizer));
    SR_TRY(sr_shard_add_column(w, &j.a_tokens, "a_tokens", SR_COLUMN_U32));
    SR_TRY(sr_shard_add_column(w, &j.b_tokens, "b_tokens", SR_COLUMN_U32));
    SR_TRY(sr_field_add(&j.next, w, "next_sentence", SR_COLUMN_I32, false, 1));
    for (size_t i = 0; i < count; i++) SR_TRY(import_file(&j, paths[i]));
    if (counts->examples == 0) return sr_fail(SR_EDATA, "prepare: %s has no rows", paths[0]);
    return SR_OK;
}
