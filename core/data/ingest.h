/* ingest.h - writes a .sqr file from text: sentences in, token ids out, on all threads.
 *
 * The text is a stream, processed a megabyte at a time, so memory does not depend on its size.  A
 * step reads the next megabyte, writes the one before, and tokenizes one in groups of sentences,
 * split by size, never by the number of threads: all of it in parallel, each part in order, so that
 * the file does not depend on the number of threads.
 *
 *     sr_ingest_open(&in, "out.sqr", source, &opts, threads);
 *     do sr_ingest_step(in, &done); while (!done);     look at sr_ingest_count() in between
 *     sr_ingest_commit(in);
 *
 * Every sentence that was read is either stored or counted as dropped:
 *     sentences + pieces == stored + empty
 */
#pragma once

#include "core/base/thread.h"
#include "core/data/shard.h"
#include "core/text/sentence.h"
#include "core/tokenizer/tokenizer.h"

SR_BEGIN_C

typedef struct sr_ingest_opts {
    sr_tokenizer *tokenizer; /* special tokens in the text are plain text */
    sr_text_format format;
    const char *document_start; /* prefix of paragraphs that start a document; blank lines then
                                 * end paragraphs only; NULL: a blank line ends a document */
    const char *source;         /* description of the text for the metadata, or NULL */
} sr_ingest_opts;

typedef struct sr_ingest_counts {
    uint64_t sentences;         /* read */
    uint64_t stored;            /* written */
    uint64_t empty;             /* dropped: without tokens */
    uint64_t pieces;            /* more, of sentences with over 65,535 tokens */
    uint64_t documents;         /* written */
    uint64_t documents_empty;   /* dropped: without sentences */
    uint64_t tokens, unknown;   /* written; of these, unknown words */
    uint64_t words;             /* of the sentences written, as white space separates them */
    uint64_t records, left_out; /* of JSONL: read, and of these not wanted */
    uint64_t bytes, invalid;    /* bytes of text; invalid UTF-8 sequences */
    uint64_t bytes_read, total /* bytes read from storage, and their total (0: unknown) */;
    uint64_t files, long_cut; /* splits of overlong lines and sentences */
} sr_ingest_counts;

typedef struct sr_ingest sr_ingest;

/* Begins.  `source` and `threads` (or NULL) must outlive it. */
sr_status sr_ingest_open(sr_ingest **out, const char *path, sr_source *source,
                         const sr_ingest_opts *opts, sr_threads *threads);

/* Processes the next part of the text.  Errors are those of sr_source_line() and of writing, and
 * SR_ESTOP if a stop was requested. */
sr_status sr_ingest_step(sr_ingest *in, bool *done);

sr_ingest_counts sr_ingest_count(const sr_ingest *in);

/* Completes the file, after the last step; *digest is its sr_shard_digest().  sr_ingest_commit()
 * does this if it has not been called.  SR_EDATA if there is nothing to train on. */
sr_status sr_ingest_finish(uint64_t *digest, sr_ingest *in);

/* Moves the file to its path and frees `in`, also on failure.  SR_EDATA if there is nothing to
 * train on. */
sr_status sr_ingest_commit(sr_ingest *in);
void sr_ingest_abort(sr_ingest *in); /* writes no file; `in` may be NULL */

SR_END_C
