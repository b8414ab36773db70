#!/usr/bin/env python3
"""Writes tests/data/causal: small random GPT-2 models, and what Transformers computes with them.

    python3 tests/peers/causal.py

Numbers are computed in f64 with SDPA attention, one sequence at a time; gradients have the shapes of the files.
"""
import copy
import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, pre_tokenizers, processors

import family_models as families

OUT = pathlib.Path(__file__).parents[1] / "data/causal"
LENGTHS = [2, 3, 9, 17, 32]
SIZES = {"vocab_size": families.V, "n_embd": 32, "n_head": 2, "n_positions": 32, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
         "attn_pdrop": 0.0, "bos_token_id": 63, "eos_token_id": 63}
MODELS = {"gpt2": {"n_layer": 2, "n_inner": 48}, "gpt2_untied": {"n_layer": 1, "tie_word_embeddings": False}}
torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()


def make(name, more):
    config = transformers.GPT2Config(**(SIZES | more))
    config._attn_implementation = "sdpa"
    model = transformers.GPT2LMHeadModel(config).eval()
    generator = torch.Generator().manual_seed(len(name))
    with torch.no_grad():
        for key, p in model.named_parameters():
            drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if "ln_" in key:
                drawn = drawn * 0.2 + (0 if key.endswith("bias") else 1)
            elif p.ndim == 1:
                drawn = drawn * 0.2
            elif "wte" in key or "wpe" in key:
                drawn = drawn * 0.5
            else:
                drawn = drawn * 1.3 / p.shape[0] ** 0.5
            p.copy_(drawn.float())
    return model


def compute(model, sequences):
    """Mean loss over all next tokens, logits and hidden states of all rows."""
    count = sum(len(s) - 1 for s in sequences)
    loss, logits, hidden = 0, [], []
    for s in sequences:
        ids = torch.tensor([s])
        rows = model(input_ids=ids).logits[0]
        loss = loss + torch.nn.functional.cross_entropy(rows[:-1], ids[0, 1:], reduction="sum") / count
        logits.append(rows.detach())
        hidden.append(model.transformer(input_ids=ids).last_hidden_state[0].detach())
    return loss, torch.cat(logits), torch.cat(hidden)


def tokenizer(folder):
    tok, _ = families.bpe([], ["<|endoftext|>"], families.V - 1)
    while tok.get_vocab_size() < families.V:
        tok.add_tokens([f"<{tok.get_vocab_size()}>"])
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
    end = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tok, **end).save_pretrained(folder)
    return tok.token_to_id("<|endoftext|>")


def write(name, more):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    end = tokenizer(folder)
    model = make(name, more | {"bos_token_id": end, "eos_token_id": end})
    model.save_pretrained(folder)
    for extra in ("generation_config.json", "special_tokens_map.json"):
        (folder / extra).unlink(missing_ok=True)
    generator = torch.Generator().manual_seed(3)
    sequences = [torch.randint(0, end, (n,), generator=generator).tolist() for n in LENGTHS]
    exact = copy.deepcopy(model).double()
    loss, logits, hidden = compute(exact, sequences)
    loss.backward()
    gradients = families.as_written(exact, {n: p.grad for n, p in exact.named_parameters()})
    tensors = {"logits": logits, "hidden": hidden} | {"grad." + k: v for k, v in gradients.items()}
    save_file({k: v.float().contiguous() for k, v in tensors.items()}, folder / "golden.safetensors",
              metadata={"format": "pt"})
    exact.zero_grad()
    start = sequences[2]
    with torch.no_grad():
        went_on = exact.generate(torch.tensor([start]), max_new_tokens=12, do_sample=False, pad_token_id=end)
    golden = {"sequences": sequences, "loss": loss.item(), "adamw": families.follow(exact, compute, sequences),
              "continued": {"from": start, "ids": went_on[0, len(start):].tolist(), "end": end}}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{name}: loss {loss.item():.4f} to {golden['adamw'][-1][0]:.4f}, went on {golden['continued']['ids']}")


for name, more in MODELS.items():
    write(name, more)
