/* ingest.h - text to a .sqr file: sentences in, token ids out, on all threads.
 *
 * The text comes as a stream and is worked on a megabyte at a time, so memory does not depend on
 * its size.  A step cuts its sentences into groups by their bytes, never by the number of threads,
 * tokenizes the groups at once and writes them in order: the file is the same on any number.
 *
 *     sr_ingest_open(&in, "out.sqr", source, &opts, threads);
 *     do sr_ingest_step(in, &done); while (!done);     look at sr_ingest_count() in between
 *     sr_ingest_commit(in);
 *
 * Every sentence that was read is either stored or counted as dropped:
 *     sentences + pieces == stored + empty
 */
#ifndef SR_DATA_INGEST_H
#define SR_DATA_INGEST_H

#include "core/base/thread.h"
#include "core/data/shard.h"
#include "core/text/sentence.h"
#include "core/text/wordpiece.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_ingest_opts {
    sr_tokenizer *tokenizer; /* specials in the text are text */
    bool lowercase;          /* what the tokenizer does; kept in the file */
    sr_text_format format;
    const char *document_start; /* a paragraph that begins so starts a document, and blank lines
                                 * only end paragraphs; NULL: a blank line ends a document */
    const char *source;         /* what the text is, for the metadata; NULL: nothing */
} sr_ingest_opts;

typedef struct sr_ingest_counts {
    uint64_t sentences;       /* read */
    uint64_t stored;          /* written */
    uint64_t empty;           /* dropped: no token is left of them */
    uint64_t pieces;          /* more, of sentences with over 65,535 tokens */
    uint64_t documents;       /* written */
    uint64_t documents_empty; /* dropped: all their sentences were */
    uint64_t tokens, unknown; /* written; [UNK] among them */
    uint64_t bytes, invalid;  /* of text; invalid UTF-8 sequences in it */
    uint64_t bytes_read, total /* from storage, of how many (0: not known) */;
    uint64_t files, long_cut; /* places where a line or sentence was too long and was cut */
} sr_ingest_counts;

typedef struct sr_ingest sr_ingest;

/* Begins.  `source` and `threads` (or NULL) must outlive it. */
sr_status sr_ingest_open(sr_ingest **out, const char *path, sr_source *source,
                         const sr_ingest_opts *opts, sr_threads *threads);

/* Works on the next part of the text.  Errors are those of sr_source_line() and of writing, and
 * SR_ESTOP when asked to stop. */
sr_status sr_ingest_step(sr_ingest *in, bool *done);

sr_ingest_counts sr_ingest_count(const sr_ingest *in);

/* Puts the file in its place; `in` is gone, whether that worked or not.  SR_EDATA when there is
 * nothing to train on. */
sr_status sr_ingest_commit(sr_ingest *in);
void sr_ingest_abort(sr_ingest *in); /* no file; NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
