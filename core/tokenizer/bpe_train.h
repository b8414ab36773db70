/* bpe_train.h - trains byte-level BPE on text: a tokenizer.json.
 *
 * Pieces of lines by GPT-2's pattern are counted, the alphabet is that of all bytes, and the most
 * frequent pair of adjacent symbols becomes a token, repeatedly: the merges of Hugging Face's
 * BpeTrainer with the alphabet of ByteLevel.  The tokenizer begins with [PAD] [UNK] [CLS] [SEP]
 * [MASK] and puts [CLS] and [SEP] around texts; [MASK] takes the space before it.
 */
#pragma once

#include <stdint.h>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/text/source.h"
#include "core/tokenizer/train.h"

SR_BEGIN_C

enum { SR_BPE_LEAST = 5 + 256 }; /* tokens of the smallest vocabulary */

/* Reads all of `source` and stores the text of a tokenizer.json in *text (freed by sr_free()).  Of
 * the options, lower-casing, accents and the alphabet do not apply.
 *
 * Errors: SR_EINVAL  size is not in SR_BPE_LEAST .. SR_VOCAB_LIMIT
 *         SR_EDATA   the text is empty
 *         and those of sr_source_line(). */
sr_status sr_bpe_train(char **text, size_t *size, sr_source *source,
                       const sr_vocab_train_opts *opts, sr_threads *threads,
                       sr_vocab_train_counts *counts);

SR_END_C
