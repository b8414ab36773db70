#!/usr/bin/env python3
"""Writes tests/data/families: a small random model of every family and what Transformers computes with it.

    python3 tests/peers/families.py [NAME ...]

The README there says what each file has.  All numbers are computed in f64 with SDPA attention, one sequence at a time.
Where Transformers computes in f32 whatever the type of the model (RMSNorm of eurobert, the rotation of modernbert), its
function is replaced by the same formula in the type of the model; rotary tables stay f32, as there.
"""
import copy
import json
import pathlib
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.eurobert import modeling_eurobert
from transformers.models.modernbert import modeling_modernbert

import family_models as families

OUT = pathlib.Path(__file__).parents[1] / "data/families"
LENGTHS = [1, 2, 7, 15, 32]
LONG = [1, 9, 100]  # longer than half a window of 128
LABELS = {"class": 3, "tokens": 4, "squad": 2, "choice": 1}
torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()


def rms_norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


modeling_eurobert.EuroBertRMSNorm.forward = rms_norm
modeling_modernbert.apply_rotary_pos_emb = modeling_eurobert.apply_rotary_pos_emb


def draw(generator, low, high, count):
    return torch.randint(low, high + 1, (count,), generator=generator).tolist()


def sequence(name, length, generator):
    """ids with specials as in a pair, types and masked positions (from 0) with their labels."""
    cls, sep, mask, low, high = families.IDS[families.FAMILIES[name][2]]
    ids = ([cls] + draw(generator, low, high, max(0, length - 2)) + [sep])[:length]
    middle = length // 2
    types = [0] * middle + [families.FAMILIES[name][3]] * (length - middle)
    if length > 6:
        ids[middle] = sep
    places = [i for i in range(1, length - 1) if i != middle]
    order = torch.randperm(len(places), generator=generator).tolist()
    masked = sorted(places[i] for i in order[:max(1, length // 6)]) if places else []
    labels = [ids[i] for i in masked]
    for i in masked[:-1] if len(masked) > 2 else masked:
        ids[i] = mask
    return {"ids": ids, "types": types, "masked_positions": masked, "masked_labels": labels}


def inputs_of(model, s):
    ids = torch.tensor([s["ids"]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if any(s["types"]):
        inputs["token_type_ids"] = torch.tensor([s["types"]])
    return inputs


def hidden_of(model, s):
    return model.base_model(**inputs_of(model, s)).last_hidden_state[0]


def mlm(model, sequences):
    """Sum of losses over the number of masked tokens, logits of the masked rows, hidden rows."""
    count = sum(len(s["masked_positions"]) for s in sequences)
    loss, logits, hidden = 0, [], []
    for s in sequences:
        rows, wanted = model(**inputs_of(model, s)).logits[0][s["masked_positions"]], torch.tensor(s["masked_labels"])
        loss = loss + torch.nn.functional.cross_entropy(rows, wanted.long(), reduction="sum") / count
        logits.append(rows)
        hidden.append(hidden_of(model, s).detach())
    return loss, torch.cat(logits), torch.cat(hidden)


def replaced(model, sequences):
    """The same of a discriminator: mean of the binary cross entropy over all tokens."""
    count = sum(len(s["ids"]) for s in sequences)
    loss, logits, hidden = 0, [], []
    for s in sequences:
        row = model(**inputs_of(model, s)).logits[0]
        wanted = torch.tensor(s["replaced"], dtype=row.dtype)
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(row, wanted, reduction="sum") / count
        logits.append(row)
        hidden.append(hidden_of(model, s).detach())
    return loss, torch.cat(logits), torch.cat(hidden)


def gradients(model):
    zero = {n: p.grad if p.grad is not None else torch.zeros_like(p) for n, p in model.named_parameters()}
    return families.as_written(model, zero)


def error(found, wanted):
    return ((found.double() - wanted).abs().max() / wanted.abs().max()).item()


def task_of(name, task, model, sequences):
    """Tensors that only the task's model has, logits, and what to say about them."""
    more = {} if task in ("squad", "choice") else {"num_labels": LABELS[task]}
    one = families.make(name, task, seed=2, **more)
    base, own = model.state_dict(), {}
    for key, value in one.state_dict().items():
        if key in base and base[key].shape == value.shape:
            value.copy_(base[key])
        else:
            own[key] = value
    with tempfile.TemporaryDirectory() as folder:
        one.save_pretrained(folder)
        written = load_file(folder + "/model.safetensors")
        config = json.loads(pathlib.Path(folder, "config.json").read_text())
    base = families.as_written(model, dict(model.named_parameters()))
    tensors = {f"task.{task}.{key}": value for key, value in written.items()
               if key not in base or not torch.equal(base[key], value)}
    one = one.double()
    logits = []
    with torch.no_grad():
        for s in sequences:
            inputs = inputs_of(one, s)
            if task == "choice":
                inputs = {k: v[:, None] for k, v in inputs.items()}
            out = one(**inputs)
            if task == "squad":
                logits.append(torch.stack([out.start_logits[0], out.end_logits[0]], 1))
            else:
                logits.append(out.logits.reshape(-1, LABELS[task]))
    tensors[f"task.{task}.logits"] = torch.cat(logits)
    return tensors, {"config": config}


def poolings(name):
    """Other ways to pool, which change nothing but a key of the config."""
    kind = families.FAMILIES[name][0]
    if name == "modernbert":
        return ["mean"]
    return ["bos", "mean"] if kind == "EuroBertConfig" and name == "eurobert" else []


def pooled_logits(name, pooling, model, tensors, sequences):
    one = families.make(name, "class", seed=2, num_labels=LABELS["class"], classifier_pooling=pooling)
    state = one.state_dict()
    for key, value in model.state_dict().items():
        if key in state and state[key].shape == value.shape:
            state[key].copy_(value)
    one = one.double()
    with torch.no_grad():
        return torch.cat([one(**inputs_of(one, s)).logits for s in sequences])


def literal_pads(name, model):
    """A sequence with pads in its text: RoBERTa's positions depend on the ids.  Forward only."""
    cls, sep, _, low, high = families.IDS[families.FAMILIES[name][2]]
    ids = [cls] + draw(torch.Generator().manual_seed(9), low, high, 10) + [sep]
    ids[3] = ids[7] = ids[8] = model.config.pad_token_id
    s = {"ids": ids, "types": [0] * len(ids)}
    with torch.no_grad():
        return s, hidden_of(model, s)


def write(name):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    model = families.make(name)
    model.save_pretrained(folder)
    families.write_tokenizer(name, folder)
    for extra in ("generation_config.json", "special_tokens_map.json"):
        (folder / extra).unlink(missing_ok=True)
    generator = torch.Generator().manual_seed(3)
    sequences = [sequence(name, n, generator) for n in (LONG if name == "modernbert" else LENGTHS)]
    compute = mlm
    if name.endswith("discriminator"):
        compute = replaced
        for s in sequences:
            s["replaced"] = draw(generator, 0, 1, len(s["ids"]))

    exact = copy.deepcopy(model).double()
    loss, logits, hidden = compute(exact, sequences)
    loss.backward()
    tensors = {"logits": logits.detach(), "hidden": hidden}
    tensors |= {"grad." + key: value for key, value in gradients(exact).items()}
    golden = {"family": model.config.model_type, "sequences": sequences, "loss": loss.item()}
    exact.zero_grad()
    golden["adamw"] = families.follow(exact, compute, sequences)
    with torch.no_grad():
        low = compute(copy.deepcopy(model).bfloat16(), sequences)
    golden["bf16"] = {"logits": error(low[1], logits.detach()), "hidden": error(low[2], hidden)}

    if families.FAMILIES[name][0] in ("RobertaConfig", "XLMRobertaConfig", "CamembertConfig"):
        golden["pads"], tensors["pads"] = literal_pads(name, exact)
    golden["tasks"] = {}
    some = sequences[1:4]
    for task in families.TASKS:
        if families.class_of(name, task):
            more, golden["tasks"][task] = task_of(name, task, model, some)
            tensors |= more
    for pooling in poolings(name):
        tensors["pooling." + pooling] = pooled_logits(name, pooling, model, tensors, some)
    tensors = {key: value.float().contiguous() for key, value in tensors.items()}
    save_file(tensors, folder / "golden.safetensors", metadata={"format": "pt"})
    text = json.dumps(golden).replace('], "', '],\n "').replace("}, {", "},\n{").replace('}, "', '},\n"')
    (folder / "golden.json").write_text(text + "\n")
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name}: loss {loss.item():.4f} to {golden['adamw'][-1][0]:.4f}, bf16 {golden['bf16']['logits']:.1e}, "
          f"{', '.join(golden['tasks'])}, {size // 1024} KiB")


for name in sys.argv[1:] or families.FAMILIES:
    write(name)
