/* bert_hdf5.h - NVIDIA's BERT data in HDF5 to a .sqr file of fixed examples.
 *
 * A file has input_ids, input_mask, segment_ids (rows of one length), masked_lm_positions,
 * masked_lm_ids (rows of another; 0 ends them) and next_sentence_labels (1: B is random).  Masks
 * are undone, since batches mask anew in every epoch, and [CLS] and [SEP] are left out, since
 * batches add them; what cannot be undone is refused.
 */
#ifndef SR_DATA_BERT_HDF5_H
#define SR_DATA_BERT_HDF5_H

#include "core/data/indexed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the rows of some files to a .sqr file that is begun; the caller commits it.
 *
 * Errors: SR_EDATA  not such files, damaged, of another vocabulary; with the file and the row
 *         those of sr_hdf5_open() and of writing; SR_ESTOP */
sr_status sr_bert_hdf5_import(sr_ids_counts *counts, sr_shard_writer *w, const char *const *paths,
                              size_t count, const sr_tokenizer *tokenizer);

#ifdef __cplusplus
}
#endif
#endif
