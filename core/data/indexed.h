/* indexed.h - Megatron's indexed data set, NAME.idx and NAME.bin, to a .sqr file of text.
 *
 *     .idx   "MMIDIDX\0\0"; u64 version, 1; u8 type of the ids; u64 sequences; u64 documents + 1;
 *            i32 tokens of each sequence; i64 its first byte in .bin; i64 first sequence of each
 *            document, and their number
 *     .bin   the ids
 *
 * A sequence becomes a sentence, as `--split-sentences` writes them.  Special tokens at the end of
 * a document, which `--append-eod` adds, are left out.  Nothing in the files is trusted; memory
 * does not depend on their size.
 *
 * Source: the layout of Megatron-LM's megatron/core/datasets/indexed_dataset.py.
 */
#pragma once

#include "core/data/shard.h"
#include "core/tokenizer/tokenizer.h"

SR_BEGIN_C

typedef struct sr_ids_counts {
    uint64_t files, documents, sentences; /* written */
    uint64_t tokens;
    uint64_t left_out; /* special tokens at the ends of documents */
} sr_ids_counts;

/* Writes the documents of some .idx, each with its .bin beside it, to a .sqr file that is begun;
 * the caller commits it.
 *
 * Errors: SR_ENOENT  no .idx, or no .bin beside it
 *         SR_EDATA   not such a file, truncated, numbers that contradict each other, an id outside
 *                    the vocabulary; with the file and the sequence
 *         SR_EIO, SR_ENOMEM, SR_ESTOP */
sr_status sr_indexed_import(sr_ids_counts *counts, sr_shard_writer *w, const char *const *paths,
                            size_t count, const sr_tokenizer *tokenizer);

SR_END_C
