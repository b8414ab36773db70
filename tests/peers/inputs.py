#!/usr/bin/env python3
"""Writes tests/data/inputs: ids as Megatron writes them (numpy).

    python3 tests/peers/inputs.py

indexed.idx, .bin   two documents of three sentences, u16, [SEP] at their ends as --append-eod has it
"""
import pathlib
import struct

import numpy

FOLDER = pathlib.Path(__file__).parent.parent / "data" / "inputs"
SEP, SIZE = 3, 40


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


FOLDER.mkdir(exist_ok=True)
vocabulary()
indexed()
