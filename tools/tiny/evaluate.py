"""Held-out loss and task accuracy of a checkpoint in the official format.

    python evaluate.py TINY_DIR [--device cuda] [--profile exact] [--limit N] [--ablations]
                       [--samples]

A task item counts as solved when every token of the reference answer, end of sentence included,
is the most likely one after the tokens before it: exactly when greedy decoding writes it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from chat import BOS, EOS, render
from data import templates
from model import Control, EngramHash, Model, exact_control, load_checkpoint
from tokenizer import compressed_vocabulary
from tokenizers import Tokenizer
from torch import Tensor

PROSE_TOKENS = 512
BUCKETS = (64, 128, 256, 512, 1024, 2048, 4096)


class Evaluator:
    def __init__(self, folder: Path, device: str, limit: int = 10**9) -> None:
        self.tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.device = device
        self.limit = limit
        self.items: dict[str, list[dict[str, Any]]] = {}
        fixed = templates()
        for path in sorted((folder / "eval").glob("*.jsonl")):
            records = [json.loads(line) for line in path.read_text().splitlines()]
            if path.stem != "prose":
                for r in records:
                    prompt = "".join(
                        t
                        for t, _ in render(
                            fixed, r["messages"], thinking=r["thinking"], tools=r.get("tools")
                        )
                    )
                    r["prompt_ids"] = self.encode(prompt)
                    r["answer_ids"] = self.encode(r["reference"] + EOS)
            self.items[path.stem] = records
        self.map = compressed_vocabulary(self.tok)

    def encode(self, text: str) -> list[int]:
        return self.tok.encode(text, add_special_tokens=False).ids

    def forward(
        self,
        model: Model,
        hasher: EngramHash,
        rows: list[list[int]],
        ctl: Control,
        dtype: torch.dtype,
    ) -> Tensor:
        """Hidden states of right-padded rows; padding is after the text, so it changes nothing."""
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), 2)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
        ids = ids.to(self.device)
        return model(ids, hasher(ids), ctl, dtype)[0]

    @torch.no_grad()
    def prose_loss(
        self, model: Model, hasher: EngramHash, ctl: Control, dtype: torch.dtype
    ) -> tuple[float, int]:
        """Mean loss of tokens 1..511 of each held-out document, after BOS; and their number."""
        rows = [self.encode(BOS + r["text"])[:PROSE_TOKENS] for r in self.items["prose"]]
        rows = rows[: self.limit]
        total, count = 0.0, 0
        for start in range(0, len(rows), 16):
            part = rows[start : start + 16]
            hidden = self.forward(model, hasher, part, ctl, dtype)
            for h, row in zip(hidden, part, strict=True):
                logits = model.logits(h[: len(row) - 1])
                target = torch.tensor(row[1:], device=self.device)
                total += F.cross_entropy(logits, target, reduction="sum").item()
                count += len(row) - 1
        return total / count, count

    @torch.no_grad()
    def solved(
        self, model: Model, hasher: EngramHash, task: str, ctl: Control, dtype: torch.dtype
    ) -> list[tuple[dict[str, Any], bool]]:
        records = sorted(self.items[task][: self.limit], key=lambda r: len(r["prompt_ids"]))
        out = []
        at = 0
        while at < len(records):
            batch = max(1, min(50, 30_000 // (len(records[at]["prompt_ids"]) * 3 // 2 + 64)))
            part = records[at : at + batch]
            at += batch
            hidden = self.forward(
                model, hasher, [r["prompt_ids"] + r["answer_ids"] for r in part], ctl, dtype
            )
            for h, r in zip(hidden, part, strict=True):
                first, n = len(r["prompt_ids"]) - 1, len(r["answer_ids"])
                guess = model.logits(h[first : first + n]).argmax(-1).tolist()
                out.append((r, guess == r["answer_ids"]))
        return out

    def all(
        self, model: Model, hasher: EngramHash, ctl: Control, dtype: torch.dtype
    ) -> dict[str, Any]:
        result: dict[str, Any] = {"prose": self.prose_loss(model, hasher, ctl, dtype)[0]}
        for task in self.items:
            if task == "prose":
                continue
            outcome = self.solved(model, hasher, task, ctl, dtype)
            result[task] = sum(ok for _, ok in outcome) / len(outcome)
            if task == "recall":
                for low, high in zip((0, *BUCKETS), BUCKETS, strict=False):
                    inside = [ok for r, ok in outcome if low <= r["distance"] < high]
                    if inside:
                        result[f"recall<{high}"] = [sum(inside) / len(inside), len(inside)]
        return result

    @torch.no_grad()
    def complete(
        self,
        model: Model,
        hasher: EngramHash,
        prompts: list[str],
        temperatures: list[float],
        count: int,
        ctl: Control,
        dtype: torch.dtype,
        seed: int = 0,
    ) -> list[str]:
        """Continuations of all prompts at once; the whole text is computed again every step."""
        rows = [self.encode(p) for p in prompts]
        starts = [len(r) for r in rows]
        open_rows = set(range(len(rows)))
        generator = torch.Generator().manual_seed(seed)
        for _ in range(count):
            hidden = self.forward(model, hasher, rows, ctl, dtype)
            last = torch.tensor([len(r) - 1 for r in rows], device=self.device)
            logits = model.logits(hidden[torch.arange(len(rows)), last]).cpu()
            for i in sorted(open_rows):
                t = temperatures[i]
                choice = (
                    int(torch.multinomial((logits[i] / t).softmax(-1), 1, generator=generator))
                    if t
                    else int(logits[i].argmax())
                )
                if choice == 1:
                    open_rows.discard(i)
                else:
                    rows[i].append(choice)
        return [
            self.tok.decode(r[n:], skip_special_tokens=False)
            for r, n in zip(rows, starts, strict=True)
        ]


PROMPTS = (
    "The kernel",
    "To install a package,",
    "This function returns",
    "A database index is",
    "If the file does not exist,",
    "The following options are available:",
    "Python is a programming language that",
    "When a process receives a signal,",
)
QUESTIONS = (
    "Hello!",
    "Who are you?",
    "What is 27 + 58?",
    "Sort these numbers: 42, 7, 19, 88",
    "What is fopen?",
    "Tell me about shared memory.",
    "Repeat: green table 512 rice",
)


def samples(
    evaluator: Evaluator, model: Model, hasher: EngramHash, ctl: Control, dtype: torch.dtype
) -> str:
    labels, prompts, temperatures = [], [], []
    for prompt in PROMPTS:
        for t in (0.0, 0.7):
            labels.append(f"[t={t}] {prompt}")
            prompts.append(BOS + prompt)
            temperatures.append(t)
    for question in QUESTIONS:
        for thinking in (False, True):
            labels.append(f"[chat thinking={thinking}] {question}")
            prompts.append(
                "".join(
                    t
                    for t, _ in render(
                        templates(), [{"role": "user", "content": question}], thinking=thinking
                    )
                )
            )
            temperatures.append(0.0)
    texts = evaluator.complete(model, hasher, prompts, temperatures, 60, ctl, dtype)
    return "\n".join(f"{a} | {b!r}" for a, b in zip(labels, texts, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", choices=("exact", "exact+cache"), default="exact")
    parser.add_argument("--limit", type=int, default=10**9)
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("--tasks", nargs="*")
    args = parser.parse_args()
    evaluator = Evaluator(args.folder, args.device, args.limit)
    if args.tasks is not None:
        evaluator.items = {
            k: v for k, v in evaluator.items.items() if k in args.tasks or k == "prose"
        }
    model = load_checkpoint(args.folder, 8192).to(args.device)
    hasher = EngramHash(model.config, np.asarray(evaluator.map)).to(args.device)
    ctl = exact_control(model.config, args.profile == "exact+cache", args.device)
    result = {"profile": args.profile} | evaluator.all(model, hasher, ctl, torch.float32)
    print(json.dumps(result), flush=True)
    if args.ablations:  # they concern the prose and the far facts
        evaluator.items = {k: v for k, v in evaluator.items.items() if k in ("prose", "recall")}
        for name, setting in (
            ("newest", {"newest": True}),
            ("no_engram", {"engram": False}),
            ("window_only", {"memory": False}),
        ):
            changed = Control(**{**ctl.__dict__, **setting})
            print(
                json.dumps(
                    {"ablation": name} | evaluator.all(model, hasher, changed, torch.float32)
                ),
                flush=True,
            )
    if args.samples:
        print(samples(evaluator, model, hasher, ctl, torch.float32))


if __name__ == "__main__":
    main()
