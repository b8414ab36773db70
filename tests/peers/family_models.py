"""Small random models of every family with a tokenizer, for families.py, families_roundtrip.py and causal.py.

Weights are so large that attention is far from flat, norms and biases far from 1 and 0: errors show.
"""
import copy
import tempfile

import torch
import transformers
from safetensors.torch import load_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

V = 64
WORDS = "the of and to in he was that it his her she had with for not is be you on".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES = {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
         "initializer_range": 0.02}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ROBERTA = SIZES | NO_DROPOUT | {"max_position_embeddings": 34, "layer_norm_eps": 1e-5, "type_vocab_size": 1,
                                "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
MODERNBERT = SIZES | {"max_position_embeddings": 256, "pad_token_id": 61, "bos_token_id": 59, "cls_token_id": 59,
                      "eos_token_id": 60, "sep_token_id": 60}
EUROBERT = SIZES | {"max_position_embeddings": 128, "num_attention_heads": 4, "pad_token_id": 61, "bos_token_id": 60,
                    "eos_token_id": 61, "mask_token_id": 62}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}

# name: config class, options, kind of tokenizer, token type of a pair's second part
FAMILIES = {
    "bert": ("BertConfig", SIZES | NO_DROPOUT | {
        "num_hidden_layers": 1, "max_position_embeddings": 32}, "wordpiece", 1),
    "distilbert": ("DistilBertConfig", {
        "vocab_size": V, "dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 32,
        "dropout": 0.0, "attention_dropout": 0.0, "qa_dropout": 0.0, "seq_classif_dropout": 0.0}, "wordpiece", 0),
    "electra": ("ElectraConfig", SIZES | NO_DROPOUT | {
        "max_position_embeddings": 32, "embedding_size": 16, "summary_last_dropout": 0.0}, "wordpiece", 1),
    "electra_discriminator": ("ElectraConfig", SIZES | NO_DROPOUT | {
        "max_position_embeddings": 32, "embedding_size": 32, "num_hidden_layers": 1,
        "summary_last_dropout": 0.0}, "wordpiece", 1),
    "roberta": ("RobertaConfig", ROBERTA | {"num_hidden_layers": 1}, "roberta", 0),
    "xlm_roberta": ("XLMRobertaConfig", ROBERTA | {"num_hidden_layers": 1}, "xlm", 0),
    "camembert": ("CamembertConfig", ROBERTA | {
        "num_hidden_layers": 1, "type_vocab_size": 2, "bos_token_id": 5, "eos_token_id": 6}, "camembert", 0),
    "modernbert": ("ModernBertConfig", MODERNBERT, "modernbert", 0),
    "modernbert_bias": ("ModernBertConfig", MODERNBERT | {
        "num_hidden_layers": 3, "local_attention": 8, "global_attn_every_n_layers": 2, "norm_bias": True,
        "attention_bias": True, "mlp_bias": True, "classifier_bias": True, "classifier_pooling": "mean",
        "classifier_activation": "silu"}, "modernbert", 0),
    "nomic_bert": ("NomicBertConfig", SIZES | NO_DROPOUT | {
        "max_position_embeddings": 128, "bos_token_id": None, "eos_token_id": None}, "wordpiece", 1),
    "gte": ("GteConfig", SIZES | NO_DROPOUT | {
        "num_hidden_layers": 1, "max_position_embeddings": 128, "layer_norm_eps": 1e-12, "bos_token_id": 0,
        "eos_token_id": 2}, "xlm", 0),
    "eurobert": ("EuroBertConfig", EUROBERT | {
        "num_key_value_heads": 2, "rope_parameters": ROPE | {"rope_theta": 250000.0}}, "eurobert", 0),
    "eurobert_tied": ("EuroBertConfig", EUROBERT | {
        "num_hidden_layers": 1, "num_key_value_heads": 1, "tie_word_embeddings": True, "attention_bias": True,
        "mlp_bias": True, "classifier_pooling": "mean", "rope_parameters": ROPE}, "eurobert", 0),
}
# by kind of tokenizer: cls, sep, mask, first and last id of ordinary tokens
IDS = {"wordpiece": (2, 3, 4, 5, 63), "roberta": (0, 2, 63, 4, 62), "xlm": (0, 2, 63, 4, 62),
       "camembert": (5, 6, 63, 7, 62), "modernbert": (59, 60, 62, 0, 57), "eurobert": (60, 61, 62, 0, 59)}
TASKS = {"class": "SequenceClassification", "tokens": "TokenClassification", "squad": "QuestionAnswering",
         "choice": "MultipleChoice"}
BERT_NAMES = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]",
              "mask_token": "[MASK]"}
ROBERTA_NAMES = {"unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>",
                 "mask_token": "<mask>", "bos_token": "<s>", "eos_token": "</s>"}


def config_of(name, **more):
    kind, options, _, _ = FAMILIES[name]
    return getattr(transformers, kind)(**(options | more))


def class_of(name, task=None):
    """The class of Transformers for pretraining, or for a task; None if there is none."""
    prefix = FAMILIES[name][0].removesuffix("Config")
    if task:
        return getattr(transformers, prefix + "For" + TASKS[task], None)
    return getattr(transformers, prefix + ("ForPreTraining" if name.endswith("discriminator") else "ForMaskedLM"))


def randomise(model, seed):
    """Writes random weights; a function of the seed and each parameter's place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if "norm" in name.lower() or "_ln" in name or "ln_" in name:
                drawn = drawn * 0.2 + (0 if name.endswith("bias") else 1)
            elif p.ndim == 1:
                drawn = drawn * 0.2
            elif "embeddings" in name or "embed_tokens" in name:
                drawn = drawn * 0.5
            else:
                drawn = drawn * 1.3 / p.shape[1] ** 0.5
            p.copy_(drawn.float())
    return model


def make(name, task=None, seed=1, **more):
    """A random model in f32, attention by SDPA, without dropout."""
    config = config_of(name, **more)
    config._attn_implementation = "sdpa"
    model = class_of(name, task)(config)
    return randomise(model, seed).eval()


def wordpiece(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list(LETTERS) + WORDS[:13] + ["##" + x for x in "aeinorst"]
    words += ["##" + w for w in ["ing", "ed", "er", "ly"]] + [",", ".", "?", "!", "-", "'", "0", "1"]
    assert len(words) == V and len(set(words)) == V
    tok = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tok.decoder = decoders.WordPiece()
    tok.add_special_tokens([AddedToken(w, special=True, normalized=False) for w in words[:5]])
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return tok, BERT_NAMES


def merges_of(size):
    """Byte-level tokens: an alphabet and merges that build the words, `size` tokens in all."""
    tokens, merges = list(LETTERS) + ["\u0120", ",", "."], []
    for word in WORDS:
        parts = ["\u0120"] + list(word)
        while len(parts) > 1 and len(tokens) < size:
            pair = (parts[0], parts[1])
            if pair not in merges:
                merges.append(pair)
                tokens.append("".join(pair))
            parts = ["".join(pair)] + parts[2:]
    return tokens, merges


def bpe(first, last, size, ignore_merges=False):
    tokens, merges = merges_of(size)
    order = first + tokens + last
    return Tokenizer(models.BPE({w: i for i, w in enumerate(order)}, merges, ignore_merges=ignore_merges)), order


def special(*names, **more):
    return [AddedToken(n, special=True, normalized=False, **(more if n in ("<mask>", "[MASK]") else {})) for n in names]


def roberta(_):
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    tok, order = bpe(first, ["<mask>"], V - 5)
    assert len(order) == V, len(order)
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(special(*first, "<mask>", lstrip=True))
    return tok, ROBERTA_NAMES


def unigram(first, cls, sep):
    pieces = [(p, 0.0) for p in first]
    pieces += [("\u2581", -3.0)] + [("\u2581" + w, -4.0 - i / 10) for i, w in enumerate(WORDS)]
    pieces += [(x, -8.0) for x in LETTERS]
    pieces += [(x, -7.0) for x in "ing ed er ly es en an on re ou al is".split()][:63 - len(pieces)]
    pieces += [("<mask>", 0.0)]
    assert len(pieces) == V, len(pieces)
    tok = Tokenizer(models.Unigram(pieces, unk_id=first.index("<unk>")))
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", cls), ("</s>", sep)])
    tok.decoder = decoders.Metaspace()
    tok.add_special_tokens(special(*first, "<mask>", lstrip=True))
    return tok, ROBERTA_NAMES


def xlm(_):
    return unigram(["<s>", "<pad>", "</s>", "<unk>"], 0, 2)


def camembert(_):
    return unigram(["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>NOTUSED", "<unk>", "<s>", "</s>"], 5, 6)


def modernbert(_):
    last = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[unused0]"]
    tok, order = bpe([], last, V - 6)
    assert len(order) == V, len(order)
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 59), ("[SEP]", 60)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(special(*last[:5], lstrip=True))
    tok.add_tokens([AddedToken("[unused0]", normalized=True)])
    return tok, BERT_NAMES


LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def eurobert(_):
    last = ["<|begin_of_text|>", "<|end_of_text|>", "<|mask|>", "<|reserved|>"]
    tok, order = bpe([], last, V - 4, ignore_merges=True)
    assert len(order) == V, len(order)
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A <|end_of_text|>", pair="<|begin_of_text|> $A <|end_of_text|> $B <|end_of_text|>",
        special_tokens=[("<|begin_of_text|>", 60), ("<|end_of_text|>", 61)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(special(*last))
    return tok, {"bos_token": last[0], "eos_token": last[1], "pad_token": last[1], "mask_token": last[2],
                 "cls_token": last[0], "sep_token": last[1]}


def write_tokenizer(name, folder):
    """tokenizer.json, tokenizer_config.json and, for WordPiece, vocab.txt."""
    tok, names = globals()[FAMILIES[name][2]](folder)
    assert tok.get_vocab_size() == V
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tok, **names)
    fast.save_pretrained(folder)


def as_written(model, values):
    """Tensors by the names of the file that Transformers writes; values by the model's own names."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(values[name])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(folder + "/model.safetensors")


def follow(model, compute, sequences):
    """20 steps of AdamW: loss and norm of the gradient before clipping."""
    model = copy.deepcopy(model)
    some = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in some if p.ndim > 1], "weight_decay": 0.01},
                                   {"params": [p for p in some if p.ndim == 1], "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.999), eps=1e-6)
    rows = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = compute(model, sequences)[0]
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(some, 1.0)
        optimizer.step()
        rows.append([loss.item(), norm.item()])
    return rows
