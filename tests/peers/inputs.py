#!/usr/bin/env python3
"""Writes tests/data/inputs, and tests/fuzz/corpus/hdf5: ids as other programs write them (numpy, h5py).

    python3 tests/peers/inputs.py

indexed.idx, .bin   Megatron's layout: two documents of three sentences, u16, [SEP] at their ends as --append-eod has it
bert.hdf5           NVIDIA's BERT data, h5py's defaults with gzip: 40 rows of 24 tokens, 20 % of them masked
bert-plain.hdf5     the same rows, contiguous; bert-new.hdf5: with the newest groups and headers, shuffle and fletcher32
bert-filled.hdf5    rows of A alone (every third); labels in chunks of 4, of which only the first was written, the rest being
                    the fill value 1; segments, all 0, were never written

In the corpus, two rows of 8 tokens each time, so that a fuzzer tries many a second: plain.hdf5, contiguous; chunks.hdf5, with
a chunk for each row of ids; new.hdf5, with the newest groups and headers, and all filters for ids
"""
import pathlib
import struct

import h5py
import numpy

TESTS = pathlib.Path(__file__).parent.parent
FOLDER, CORPUS = TESTS / "data" / "inputs", TESTS / "fuzz" / "corpus" / "hdf5"
PAD, UNK, CLS, SEP, MASK = range(5)
SIZE, LENGTH, MOST = 40, 24, 5


def vocabulary():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(5, SIZE)]
    (FOLDER / "vocab.txt").write_text("\n".join(words) + "\n")


def indexed():
    sentences, ends = [[5, 6, 7], [9, 10, SEP], [20, 21, 22, 23, SEP]], [0, 2, 3]
    ids = numpy.concatenate([numpy.array(s, dtype="<u2") for s in sentences])
    (FOLDER / "indexed.bin").write_bytes(ids.tobytes())
    sizes = [len(s) for s in sentences]
    starts = [2 * sum(sizes[:i]) for i in range(len(sizes))]
    (FOLDER / "indexed.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(sizes), len(ends))
        + struct.pack(f"<{len(sizes)}i", *sizes) + struct.pack(f"<{len(starts)}q", *starts)
        + struct.pack(f"<{len(ends)}q", *ends))


def rows():
    """Row i: A of i % 4 + 1 tokens from i + 5 on, then B of i % 3 tokens; row i has its label i % 2."""
    random = numpy.random.default_rng(1)
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids")
    out = {name: numpy.zeros((40, MOST if "masked" in name else LENGTH), "i4") for name in names}
    for i in range(40):
        a = [(i + k) % (SIZE - 5) + 5 for k in range(i % 4 + 1)]
        b = [(i + len(a) + k) % (SIZE - 5) + 5 for k in range(i % 3)]
        ids = [CLS] + a + [SEP] + (b + [SEP] if b else [])
        segments = [0] * (len(a) + 2) + [1] * (len(b) + 1 if b else 0)
        places = [p for p in range(1, len(ids)) if ids[p] != SEP]
        chosen = sorted(random.choice(places, max(1, len(places) // 5), replace=False))
        for k, place in enumerate(chosen):
            out["masked_lm_positions"][i, k], out["masked_lm_ids"][i, k] = place, ids[place]
            ids[place] = [MASK, MASK, int(random.integers(5, SIZE)), ids[place]][int(random.integers(4))]
        out["input_ids"][i, :len(ids)], out["input_mask"][i, :len(ids)] = ids, 1
        out["segment_ids"][i, :len(ids)] = segments
    out["next_sentence_labels"] = numpy.arange(40, dtype="i1") % 2
    for name in ("input_mask", "segment_ids"):
        out[name] = out[name].astype("i1")
    return out


def hdf5(path, sets, how, libver=None, only=None):
    with h5py.File(path, "w", libver=libver or ("earliest", "v110")) as f:
        for key, value in sets.items():
            here = key == only if only else value.ndim == 2 or how.get("compression")
            f.create_dataset(key, data=value, **(how if here else {}))


FOLDER.mkdir(exist_ok=True)
vocabulary()
indexed()
sets = rows()
hdf5(FOLDER / "bert.hdf5", sets, {"compression": "gzip"})
hdf5(FOLDER / "bert-plain.hdf5", sets, {})
every_filter = {"compression": "gzip", "shuffle": True, "fletcher32": True}
hdf5(FOLDER / "bert-new.hdf5", sets, {**every_filter, "chunks": True}, ("v108", "v108"))


def filled():
    with h5py.File(FOLDER / "bert-filled.hdf5", "w", libver=("earliest", "v110")) as f:
        for key, value in sets.items():
            value = value[::3]
            if key == "segment_ids":
                f.create_dataset(key, value.shape, dtype=value.dtype)
            elif key == "next_sentence_labels":
                labels = f.create_dataset(key, value.shape, dtype=value.dtype, chunks=(4,), fillvalue=1)
                labels[:4] = 0
            else:
                f.create_dataset(key, data=value)


filled()

small = {name: value[3:5, :8] if value.ndim == 2 else value[3:5] for name, value in sets.items()}
hdf5(CORPUS / "plain.hdf5", small, {})
hdf5(CORPUS / "chunks.hdf5", small, {"chunks": (1, 8)}, only="input_ids")
hdf5(CORPUS / "new.hdf5", small, every_filter, ("v108", "v108"), only="input_ids")
