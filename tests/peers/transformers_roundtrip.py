#!/usr/bin/env python3
"""Checkpoints of seqrun load in Transformers and vice versa, with equal logits.

    python3 tests/peers/transformers_roundtrip.py [--seqrun build/seqrun] [--checkpoint DIR]

A small random BERT is made by Transformers first; --checkpoint adds one of ours.  Not part of `make test`,
since PyTorch is large.  Prints one line a check; the exit code is 1 when a check fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoTokenizer, BertConfig, BertForPreTraining

TEXT = "Emma was a [MASK] woman; caf\u00e9s, na\u00efve!"
TOLERANCE = 1e-4  # largest error over largest magnitude, f32 on both sides


def make_theirs(folder, vocab):
    """A random BERT, written by Transformers."""
    torch.manual_seed(1)
    config = BertConfig(vocab_size=vocab, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, max_position_embeddings=64)
    model = BertForPreTraining(config)
    for p in model.parameters():  # large enough to expose errors
        torch.nn.init.normal_(p, std=0.2)
    model.save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(vocab - 5)]
    pathlib.Path(folder, "vocab.txt").write_text("\n".join(words) + "\n")


def their_logits(folder, ids, types):
    model, report = BertForPreTraining.from_pretrained(folder, output_loading_info=True)
    model.eval()
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types]))
    keys = {k: sorted(report[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    return out.prediction_logits[0], out.seq_relationship_logits[0], keys


def our_logits(seqrun, folder, ids, types, resave=None):
    script = pathlib.Path(__file__).with_name("logits.lua")
    with tempfile.TemporaryDirectory() as tmp:
        request = pathlib.Path(tmp, "request.json")
        answer = pathlib.Path(tmp, "answer.json")
        request.write_text(json.dumps({"checkpoint": str(folder), "ids": ids, "types": types,
                                       "answer": str(answer), "resave": resave}))
        subprocess.run([seqrun, str(script), f"request={request}"], check=True)
        got = json.loads(answer.read_text())
    return torch.tensor(got["mlm"]), torch.tensor(got["nsp"])


def same(name, a, b):
    error = ((a - b).abs().max() / b.abs().max()).item()
    print(f"{'ok  ' if error <= TOLERANCE else 'FAIL'} {name}: largest error over largest magnitude {error:.2e}")
    return error <= TOLERANCE


def whole(name, keys):
    good = not any(keys.values())
    print(f"{'ok  ' if good else 'FAIL'} {name}: {keys if not good else 'no missing, no unexpected key'}")
    return good


def same_ids(name, seqrun, folder):
    """The tokenizer that Transformers loads from a checkpoint gives the same ids as seqrun."""
    theirs = AutoTokenizer.from_pretrained(folder)(TEXT).input_ids
    words = [seqrun, "tokenize", "--vocab", str(pathlib.Path(folder, "vocab.txt")), "--specials", "--ids"]
    ours = subprocess.run(words, input=TEXT + "\n", capture_output=True, text=True, check=True).stdout.split()
    good = [int(i) for i in ours] == theirs
    print(f"{'ok  ' if good else 'FAIL'} {name}: {len(theirs)} ids")
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seqrun", default="build/seqrun")
    parser.add_argument("--checkpoint", help="a step-* directory of a run")
    args = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as tmp:
        theirs = str(pathlib.Path(tmp, "theirs"))
        make_theirs(theirs, 120)
        ids, types = [2, 17, 99, 4, 33, 3, 50, 51, 3], [0] * 6 + [1] * 3
        resaved = str(pathlib.Path(tmp, "run"))
        mlm, nsp, _ = their_logits(theirs, ids, types)
        our_mlm, our_nsp = our_logits(args.seqrun, theirs, ids, types, resaved)
        good &= same("theirs loaded here, MLM logits", our_mlm, mlm)
        good &= same("theirs loaded here, NSP logits", our_nsp, nsp)
        saved = next(pathlib.Path(resaved).glob("step-*"))
        mlm2, nsp2, keys = their_logits(saved, ids, types)
        good &= whole("saved here, loaded there", keys)
        good &= same("saved here, loaded there, MLM logits", mlm2, mlm)
        if args.checkpoint:
            mlm, nsp, keys = their_logits(args.checkpoint, ids, types)
            our_mlm, our_nsp = our_logits(args.seqrun, args.checkpoint, ids, types)
            good &= whole(args.checkpoint, keys)
            good &= same("trained here, MLM logits", our_mlm, mlm)
            good &= same("trained here, NSP logits", our_nsp, nsp)
            good &= same_ids("trained here, tokenizer", args.seqrun, args.checkpoint)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
