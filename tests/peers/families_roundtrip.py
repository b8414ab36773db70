#!/usr/bin/env python3
"""Models of every family and task, made by Transformers, saved and exported by seqrun, load in Transformers again: no
missing or unexpected tensor, equal logits, equal ids.

    python3 tests/peers/families_roundtrip.py [--seqrun build/seqrun] [NAME ...]

Prints one line a check; the exit code is 1 when a check fails.  Not part of `make test`, since PyTorch is large.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoTokenizer

import family_models as families

transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
TEXTS = ["the cat was in it", "he had not the time, and she was with her", "it"]


def inputs_of(model, choice):
    """A padded batch of three sequences."""
    generator = torch.Generator().manual_seed(4)
    name = model.config.model_type
    ids = torch.randint(7, 57, (3, 20), generator=generator)
    mask = torch.ones_like(ids)
    for row, length in enumerate((20, 11, 3)):
        mask[row, length:] = 0
        ids[row, length:] = model.config.pad_token_id
    inputs = {"input_ids": ids, "attention_mask": mask}
    if name in ("bert", "electra", "nomic_bert"):
        inputs["token_type_ids"] = (torch.arange(20)[None] > 8).long() * mask
    return {k: v[:, None] for k, v in inputs.items()} if choice else inputs


def outputs_of(model):
    choice = type(model).__name__.endswith("MultipleChoice")
    inputs = inputs_of(model, choice)
    with torch.no_grad():
        out = model.eval()(**inputs)
    if hasattr(out, "start_logits"):
        return torch.stack([out.start_logits, out.end_logits])
    values = out.logits if hasattr(out, "logits") else out.last_hidden_state
    if values.ndim > 1 and values.shape[1] == 20:
        values = values[inputs["attention_mask"].reshape(3, 20) > 0]
    return values


def load(cls, folder):
    model, report = cls.from_pretrained(folder, output_loading_info=True, attn_implementation="sdpa")
    kinds = ("missing_keys", "unexpected_keys", "mismatched_keys")
    wrong = {k: sorted(map(str, report[k])) for k in kinds if report[k]}
    return model, wrong


class Checks:
    def __init__(self):
        self.good = True

    def __call__(self, title, good, text):
        print(f"{'ok  ' if good else 'FAIL'} {title}: {text}", flush=True)
        self.good &= bool(good)

    def same(self, title, cls, folder, wanted, pooler=True):
        """Whether a directory loads whole and computes the same; AutoModel adds a pooler to a model that has none."""
        try:
            model, wrong = load(cls, folder)
        except Exception as problem:  # what a user would see
            return self(title, False, f"{type(problem).__name__}: {problem}")
        if not pooler and all(key.startswith("pooler.") for key in wrong.get("missing_keys", [])):
            wrong.pop("missing_keys", None)
        self(title, not wrong, wrong or "no missing, no unexpected key")
        got = outputs_of(model)
        error = ((got - wanted).abs().max() / wanted.abs().max()).item()
        self(title, error <= 1e-6, f"largest error {error:.1e}")


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def same_ids(check, title, theirs, exported):
    try:
        first, second = (AutoTokenizer.from_pretrained(f)(TEXTS).input_ids for f in (theirs, exported))
    except (OSError, ValueError) as problem:
        return check(title + ", tokenizer", False, str(problem).splitlines()[0])
    check(title + ", tokenizer", first == second, f"{sum(map(len, first))} ids")


def round_trip(check, seqrun, name, task, folder):
    title = f"{name} {task or 'pretraining'}"
    labels = {} if task not in ("class", "tokens") else {"num_labels": 3}
    model = families.make(name, task, seed=5, **labels)
    theirs, saved, exported = folder / "theirs", folder / "run", folder / "exported"
    model.save_pretrained(theirs)
    families.write_tokenizer(name, theirs)
    wanted = outputs_of(model)
    auto = type(model)
    try:
        if name.endswith("discriminator") and not task:  # its head is a user's
            run([seqrun, "import", str(theirs), str(saved)])
        else:
            run([seqrun, "tests/peers/task_models.lua", f"from={theirs}", f"out={saved}"])
        run([seqrun, "export", str(saved), str(exported)])
        run([seqrun, "export", str(saved), str(exported) + "-encoder", "--encoder"])
        run([seqrun, "import", str(theirs), str(folder / "imported")])
    except RuntimeError as problem:
        return check(title, False, problem)
    check.same(title + ", saved here", auto, next(saved.glob("step-*")), wanted)
    check.same(title + ", exported", auto, exported, wanted)
    check.same(title + ", imported", auto, next((folder / "imported").glob("step-*")), wanted)
    config, before = (json.loads((f / "config.json").read_text()) for f in (exported, theirs))
    check(title + ", config.json", config["architectures"] == before["architectures"], config["architectures"])
    check(title + ", AutoConfig", AutoConfig.from_pretrained(exported).to_diff_dict() is not None, config["model_type"])
    with torch.no_grad():
        inputs = inputs_of(model, False)
        hidden = model.base_model(**inputs).last_hidden_state[inputs["attention_mask"] > 0]
    pooler = getattr(model.base_model, "pooler", None) is not None
    check.same(title + ", encoder exported", AutoModel, str(exported) + "-encoder", hidden, pooler)
    same_ids(check, title, theirs, exported)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seqrun", default="build/seqrun")
    parser.add_argument("--pretraining-only", action="store_true")
    parser.add_argument("names", nargs="*", default=[])
    args = parser.parse_args()
    check = Checks()
    for name in args.names or families.FAMILIES:
        for task in [None] if args.pretraining_only else [None, *families.TASKS]:
            if not task or families.class_of(name, task):
                with tempfile.TemporaryDirectory() as folder:
                    round_trip(check, args.seqrun, name, task, pathlib.Path(folder))
    sys.exit(0 if check.good else 1)


if __name__ == "__main__":
    main()
