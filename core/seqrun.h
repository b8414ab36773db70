/* seqrun.h - all of core by one include, and the map of its directories.
 *
 * A directory uses itself and those before it.  Nothing here knows Lua, prints or exits.
 *
 *   base       status, memory, files, threads, keyed randomness
 *   unicode    UTF-8, classes and normal forms of code points
 *   text       files to lines, documents and sentences
 *   tokenizer  words to token ids
 *   data       data sets: token ids and typed columns in a file; the examples of an epoch
 *   pack       lengths to a plan, a plan to packs, lower bounds and their proofs; lp/ the simplex
 *   batch      sequences collated into one buffer: layout, masks, targets, tiles of attention
 *   loader     what comes next (epochs, orders, stages, samplers), and making updates of it ahead
 *   tensor     views of device memory, ops through a backend's table, gradients, plug-ins
 *   train      parameters, gradients summed over shares, optimizers
 *   store      files that survive a power cut: checkpoints, safetensors, logs
 *
 * Included here is what programs and plug-ins use; other headers are internal to core, the kernels
 * and the bindings.
 * The kernels that fill the backend's table are in kernels/, the Lua modules in lua/bind.
 *
 * One letter means one size, everywhere:
 *
 *   T   token rows of a batch       P   packs                S   pack length, in tokens
 *   N   sequences                   M   masked positions     V   vocabulary
 *   L   layers                      H   hidden, H = A D      A   heads
 *   D   size of a head              F   inner size
 *
 * A sequence is one example.  A pack is a row that several share.  A plan lists which lengths share
 * a pack, and how often.  A batch is some packs, collated; an update is the batches between two
 * steps of the optimizer, cut into shares.  A target is what a head predicts; a collator makes it.
 * A checkpoint is saved state; dropping activations is recompute.  A pool keeps memory, threads
 * work, and a scope owns what a step allocates.
 */
#pragma once

#include "core/base/directory.h"
#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/permute.h"
#include "core/base/reader.h"
#include "core/base/rng.h"
#include "core/base/status.h"
#include "core/base/system.h"
#include "core/base/thread.h"

#include "core/unicode/utf8.h"

#include "core/text/rows.h"
#include "core/text/sentence.h"
#include "core/text/source.h"

#include "core/tokenizer/bpe_train.h"
#include "core/tokenizer/count.h"
#include "core/tokenizer/encode.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/train.h"
#include "core/tokenizer/vocab.h"

#include "core/data/dataset.h"
#include "core/data/examples.h"
#include "core/data/field.h"
#include "core/data/ingest.h"
#include "core/data/measure.h"
#include "core/data/metric.h"
#include "core/data/scan.h"
#include "core/data/shard.h"

#include "core/pack/assign.h"
#include "core/pack/bounds.h"
#include "core/pack/build.h"
#include "core/pack/certificate.h"
#include "core/pack/depth.h"
#include "core/pack/histogram.h"
#include "core/pack/instances.h"
#include "core/pack/online.h"
#include "core/pack/pack.h"
#include "core/pack/plan.h"
#include "core/pack/prove.h"

#include "core/batch/batch.h"
#include "core/batch/collate.h"
#include "core/batch/concepts.h"
#include "core/batch/layout.h"
#include "core/batch/mask.h"
#include "core/batch/target.h"
#include "core/batch/tiles.h"
#include "core/batch/token_drop.h"

#include "core/loader/cursor.h"
#include "core/loader/epoch.h"
#include "core/loader/loader.h"
#include "core/loader/order.h"
#include "core/loader/sampler.h"
#include "core/loader/schedule.h"
#include "core/loader/stage.h"
#include "core/loader/update.h"
#include "core/loader/window.h"

#include "core/tensor/backend.h"
#include "core/tensor/batch_on.h"
#include "core/tensor/comm.h"
#include "core/tensor/device.h"
#include "core/tensor/dtype.h"
#include "core/tensor/function.h"
#include "core/tensor/grad.h"
#include "core/tensor/layout_on.h"
#include "core/tensor/ops.h"
#include "core/tensor/plugin.h"
#include "core/tensor/scope.h"
#include "core/tensor/tensor.h"
#include "core/tensor/weight.h"

#include "core/train/all_gather.h"
#include "core/train/average.h"
#include "core/train/exchange.h"
#include "core/train/optim.h"
#include "core/train/params.h"
#include "core/train/sharded.h"
#include "core/train/shares.h"
#include "core/train/twin.h"

#include "core/store/alarm.h"
#include "core/store/append.h"
#include "core/store/background.h"
#include "core/store/checkpoint.h"
#include "core/store/events.h"
#include "core/store/manifest.h"
#include "core/store/safetensors.h"
#include "core/store/saving.h"
