"""Trains the byte-level BPE tokenizer in the form of the official one.

    python tokenizer.py OFFICIAL_TOKENIZER_JSON_GZ PROSE_JSONL TEMPLATES_JSON OUT_DIR

Pre-tokenizer, decoder, post-processor and the flags of the added tokens are the official
file's; only vocabulary and merges are new. Digits never merge: sums are learnt digit by digit.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers.normalizers import NFD, NFKC, Lowercase, Replace, Sequence

VOCABULARY = 4096
FIRST = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>")
# Spellings that the chat format, the parser and the model use; all exist in the official file
# except the draft noise token, which there is one of the numbered placeholders.
ADDED = (
    "<｜System｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<think>",
    "</think>",
    "｜DSML｜",
    "<｜latest_reminder｜>",
    "<|EOT|>",
    "<｜fim▁hole｜>",
    "<｜fim▁begin｜>",
    "<｜fim▁end｜>",
    "<｜action｜>",
    "<｜query｜>",
    "<｜authority｜>",
    "<｜domain｜>",
    "<｜title｜>",
    "<｜read_url｜>",
    "<｜end_of_query｜>",
    "<｜place▁holder▁no▁0｜>",
    "<｜deepseek_image｜>",
    "<｜/polygon｜>",
    "<｜polygon｜>",
    "<｜/point｜>",
    "<｜point｜>",
    "<｜/box｜>",
    "<｜box｜>",
    "<｜/ref｜>",
    "<｜ref｜>",
)
IMAGE_TOKEN = "<｜deepseek_image｜>"
NOISE_TOKEN = "<｜place▁holder▁no▁0｜>"


def engram_normalizer() -> Sequence:
    """The chain of model.md 9.1."""
    return Sequence(
        [
            NFKC(),
            NFD(),
            normalizers.StripAccents(),
            Lowercase(),
            Replace(_regex(r"[ \t\r\n]+"), " "),
            Replace(_regex(r"^ $"), "\ue000"),
            normalizers.Strip(),
            Replace("\ue000", " "),
        ]
    )


def _regex(pattern: str) -> Any:
    from tokenizers import Regex

    return Regex(pattern)


def compressed_vocabulary(tokenizer: Tokenizer) -> np.ndarray:
    """Token id to compressed id, by first appearance of the normalized text."""
    norm = engram_normalizer()
    keys: dict[str, int] = {}
    out = []
    for i in range(tokenizer.get_vocab_size(with_added_tokens=True)):
        text = tokenizer.decode([i], skip_special_tokens=False)
        if "\ufffd" in text:
            key = tokenizer.id_to_token(i)
        else:
            key = norm.normalize_str(text) or text
        out.append(keys.setdefault(key, len(keys)))
    return np.array(out, dtype=np.int32)


def corpus(prose: Path, templates: Path) -> Iterator[str]:
    for line in prose.open():
        record = json.loads(line)
        if not record["held_out"]:
            yield record["text"]
    fixed = json.loads(templates.read_text())
    text = "".join(v for k, v in fixed.items() if k != "about")
    from tasks import Generator  # the chat tasks' own words deserve tokens too

    generator = Generator(seed=1, training=True)
    for _ in range(60):  # the tool text is long and fixed: let it become few tokens
        yield text
    for _ in range(6000):
        item = generator.any()
        yield "\n".join(m["content"] for m in item["messages"])
        yield item["target"]
        if "tools" in item:
            yield json.dumps(item["tools"])


def train(official: dict[str, Any], texts: Iterator[str]) -> dict[str, Any]:
    """The new tokenizer.json as a dictionary."""
    shape = {k: v for k, v in official.items() if k not in ("model", "added_tokens")}
    blank = Tokenizer(models.BPE())
    # Digits are split singly here only, so that no merge of two digits is ever learnt; the
    # written file has the official pre-tokenizer.
    steps = [pre_tokenizers.Digits(individual_digits=True)]
    probe = Tokenizer.from_str(
        json.dumps(
            shape | {"added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}
        )
    )
    blank.pre_tokenizer = pre_tokenizers.Sequence([*steps, probe.pre_tokenizer])
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(FIRST) - len(ADDED),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    blank.train_from_iterator(texts, trainer)
    model = json.loads(blank.to_str())["model"]
    by_rank = sorted(model["vocab"], key=model["vocab"].__getitem__)
    vocab = {token: i for i, token in enumerate((*FIRST, *by_rank))}
    flags = {t["content"]: t for t in official["added_tokens"]}
    added = []
    for token in (*FIRST, *ADDED):
        index = vocab.get(token, len(vocab) + len(added) - len(FIRST))
        added.append(flags[token] | {"id": index})
    merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    kept = {k: v for k, v in official["model"].items() if k not in ("vocab", "merges")}
    return {k: v for k, v in official.items() if k not in ("added_tokens", "model")} | {
        "added_tokens": added,
        "model": kept | {"vocab": vocab, "merges": merges},
    }


def main() -> None:
    official_path, prose, templates, out = (Path(a) for a in sys.argv[1:5])
    official = json.loads(gzip.decompress(official_path.read_bytes()))
    result = train(official, corpus(prose, templates))
    order = (
        "version",
        "truncation",
        "padding",
        "added_tokens",
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
    )
    out.mkdir(parents=True, exist_ok=True)
    path = out / "tokenizer.json"
    path.write_text(json.dumps({k: result[k] for k in order}, ensure_ascii=False, indent=1))
    config = json.loads((official_path.parent / "tokenizer_config.json").read_text())
    config["model_max_length"] = 8192
    (out / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2))
    tokenizer = Tokenizer.from_file(str(path))
    size = tokenizer.get_vocab_size()
    assert size == VOCABULARY, size
    print(f"{size} tokens, {compressed_vocabulary(tokenizer).max() + 1} after compression")


if __name__ == "__main__":
    main()
