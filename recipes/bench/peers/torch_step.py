"""BERT pretraining steps in PyTorch, on packs dumped by recipes/bench/step.lua.

    build/seqrun recipes/bench/step.lua model=base dump=packs.txt only=packed
    python3 recipes/bench/peers/torch_step.py packs.txt --model base

Each line of the file is an update: the lengths in each pack, with packs separated by ";".  A step is
forward, backward and AdamW with dropout 0.1 and the masked-LM head on masked rows only.  Arrangements:
  padded    one sequence per row of 512, attention with a key mask
  sorted    sequences sorted by length, in batches of at most the packs' slots, padded to the longest of each batch
  mask      packs of 512 with a block-diagonal mask
  sequence  packed rows, one scaled_dot_product_attention call per sequence (the fastest in f32)
  varlen    packed rows, one call of torch.nn.attention.varlen (a GPU in bf16; it has no dropout)
With --device cuda the model runs there, --compile compiles its layers but for attention, and --tsv FILE
--label h100 appends a line for each arrangement: label, model, tokens, "PyTorch ARRANGEMENT", microseconds.
--cpu-time counts the CPU time of the process.  The model is self-contained; only torch is needed.
"""

import argparse
import math
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn

MODELS = {
    "base": dict(hidden=768, layers=12, heads=12, inner=3072, vocabulary=30522),
    "large": dict(hidden=1024, layers=24, heads=16, inner=4096, vocabulary=30522),
    "minilm": dict(hidden=384, layers=6, heads=12, inner=1536, vocabulary=30522),
    "tiny": dict(hidden=64, layers=1, heads=1, inner=128, vocabulary=256),
    "small": dict(hidden=256, layers=4, heads=4, inner=1024, vocabulary=8000),
}
CAPACITY = 512


class Layer(nn.Module):
    def __init__(self, hidden, heads, inner, **_):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.projection = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-12)
        self.inner = nn.Linear(hidden, inner)
        self.outer = nn.Linear(inner, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-12)

    def forward(self, x, attend):
        qkv = self.qkv(x).view(x.shape[0], 3, self.heads, -1).permute(1, 2, 0, 3)
        mixed = attend(qkv[0], qkv[1], qkv[2]).transpose(0, 1).reshape(x.shape)
        x = self.norm1(x + F.dropout(self.projection(mixed), 0.1))
        return self.norm2(x + F.dropout(self.outer(F.gelu(self.inner(x))), 0.1))


class Bert(nn.Module):
    def __init__(self, vocabulary, hidden, layers, **rest):
        super().__init__()
        self.word = nn.Embedding(vocabulary, hidden)
        self.position = nn.Embedding(CAPACITY, hidden)
        self.kind = nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.layers = nn.ModuleList(Layer(hidden, **rest) for _ in range(layers))
        self.transform = nn.Linear(hidden, hidden)
        self.transform_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.pooler = nn.Linear(hidden, hidden)
        self.relation = nn.Linear(hidden, 2)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, batch, attend):
        x = self.word(batch["ids"]) + self.position(batch["positions"]) + self.kind(batch["types"])
        x = F.dropout(self.norm(x), 0.1)
        for layer in self.layers:
            x = layer(x, attend)
        rows = self.transform_norm(F.gelu(self.transform(x[batch["masked"]])))
        mlm = F.cross_entropy(F.linear(rows, self.word.weight, self.bias), batch["labels"])
        pooled = torch.tanh(self.pooler(x[batch["starts"]]))
        return mlm + F.cross_entropy(self.relation(pooled), batch["nsp"])


def attend_padded(lengths, width, device):
    keep = torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]
    mask = keep[:, None, None, :].to(device)

    def attend(q, k, v):
        heads, rows, size = q.shape
        q, k, v = (t.view(heads, -1, width, size).transpose(0, 1) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.1)
        return out.transpose(0, 1).reshape(heads, rows, size)

    return attend


def attend_mask(packs, device):
    owner = torch.full((len(packs), CAPACITY), -1)
    for p, pack in enumerate(packs):
        at = 0
        for i, n in enumerate(pack):
            owner[p, at : at + n] = i
            at += n
    mask = (owner[:, :, None] == owner[:, None, :])[:, None].to(device)

    def attend(q, k, v):
        heads, rows, size = q.shape
        q, k, v = (t.view(heads, -1, CAPACITY, size).transpose(0, 1) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.1)
        return out.transpose(0, 1).reshape(heads, rows, size)

    return attend


def attend_sequence(spans, rows):
    def attend(q, k, v):
        out = torch.zeros_like(q)
        for start, n in spans:
            s = slice(start, start + n)
            out[:, s] = F.scaled_dot_product_attention(q[None, :, s], k[None, :, s], v[None, :, s], dropout_p=0.1)[0]
        return out

    return attend


def attend_varlen(spans, rows, device):
    from torch.nn.attention.varlen import varlen_attn

    ends, longest = [0], 1  # slack becomes sequences of its own: their rows are not read
    for start, n in spans:
        if start > ends[-1]:
            ends.append(start)
        ends.append(start + n)
        longest = max(longest, n)
    if rows > ends[-1]:
        ends.append(rows)
    longest = max([longest] + [b - a for a, b in zip(ends, ends[1:])])
    cu = torch.tensor(ends, dtype=torch.int32, device=device)

    def attend(q, k, v):
        q, k, v = (t.transpose(0, 1).contiguous() for t in (q, k, v))
        return varlen_attn(q, k, v, cu, cu, longest, longest).transpose(0, 1)

    return attend


def by_length(lengths, slots):
    """Cuts lengths, longest first, into batches of at most `slots` slots when padded."""
    lengths, batches = sorted(lengths, reverse=True), []
    while lengths:
        count = max(1, slots // lengths[0])
        batches.append(lengths[:count])
        lengths = lengths[count:]
    return batches


def arrange(packs, how):
    """Batches of an update: starts and lengths of the sequences in a buffer, its rows, and the width of a row."""
    lengths = [n for pack in packs for n in pack]
    if how in ("padded", "sorted"):
        padded = [lengths] if how == "padded" else by_length(lengths, len(packs) * CAPACITY)
        widths = [CAPACITY if how == "padded" else some[0] for some in padded]
        return [([(i * w, n) for i, n in enumerate(some)], len(some) * w, w) for some, w in zip(padded, widths)]
    spans = []
    for p, pack in enumerate(packs):
        at = p * CAPACITY
        for n in pack:
            spans.append((at, n))
            at += n
    return [(spans, len(packs) * CAPACITY, CAPACITY)]


def batch_of(spans, rows, vocabulary):
    ids, positions = torch.randint(0, vocabulary, (rows,)), torch.zeros(rows, dtype=torch.long)
    masked = []
    for i, (start, n) in enumerate(spans):
        positions[start : start + n] = torch.arange(n)
        masked += [start + j for j in range(n) if (i + j) % 7 == 0]
    return dict(
        ids=ids,
        positions=positions,
        types=torch.zeros(rows, dtype=torch.long),
        masked=torch.tensor(masked),
        labels=torch.randint(0, vocabulary, (len(masked),)),
        starts=torch.tensor([s for s, _ in spans]),
        nsp=torch.randint(0, 2, (len(spans),)),
    )


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def attention_of(how, packs, spans, rows, width, device):
    if how in ("padded", "sorted"):
        return attend_padded([n for _, n in spans], width, device)
    if how == "mask":
        return attend_mask(packs, device)
    return attend_sequence(spans, rows) if how == "sequence" else attend_varlen(spans, rows, device)


def seconds_of(model, optimizer, packs, how, o):
    batches, tokens = [], 0
    for spans, rows, width in arrange(packs, how):
        batch = batch_of(spans, rows, MODELS[o.model]["vocabulary"])
        attend = attention_of(how, packs, spans, rows, width, o.device)
        if o.compile:  # else each update is recompiled, with a copy of the call for each of its sequences
            attend = torch.compiler.disable(attend)
        batches.append(({k: v.to(o.device) for k, v in batch.items()}, attend))
        tokens += sum(n for _, n in spans)
    best = math.inf
    for turn in range(o.repeats + 1 + 2 * o.compile):
        wait(o.device)
        begin = o.now()
        for batch, attend in batches:
            with torch.autocast(o.device, torch.bfloat16, enabled=o.bf16):
                loss = model(batch, attend)
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait(o.device)
        if turn > 2 * o.compile:
            best = min(best, o.now() - begin)
    return best, tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs")
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cpu-time", dest="now", action="store_const", const=time.process_time,
                        default=time.perf_counter)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tsv", default="")
    parser.add_argument("--label", default="")
    o = parser.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    with open(o.packs, encoding="ascii") as file:
        updates = [[[int(n) for n in pack.split()] for pack in line.split(";")] for line in file]
    model = Bert(**MODELS[o.model]).to(o.device)
    if o.compile:
        for layer in model.layers:
            layer.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {'bf16' if o.bf16 else 'f32'}", flush=True)
    for how in ("sequence", "mask", "sorted", "padded", "varlen"):  # the fastest of a CPU first
        if how not in (o.only or "sequence,mask,sorted,padded").split(","):
            continue
        seconds = tokens = 0
        for packs in updates:
            s, t = seconds_of(model, optimizer, packs, how, o)
            seconds, tokens = seconds + s, tokens + t
        print(f"{how:10s} {tokens / seconds:8.0f} tokens/s", flush=True)
        if o.tsv:
            slots, us = len(updates[0]) * CAPACITY, seconds / len(updates) * 1e6
            with open(o.tsv, "a", encoding="ascii") as file:
                print(o.label, o.model, slots, f"PyTorch {how}", f"{us:.1f}", sep="\t", file=file)
    print(f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
