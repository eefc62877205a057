"""Reference values of the bundled checkpoint, from its exported bytes, fp32 on a CPU.

    python reference.py TINY_DIR

Writes reference/exact.safetensors (a few sequences with logits and log probabilities) and
reference/held_out.json (loss of every held-out document), both for the `exact` profile.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from chat import BOS
from evaluate import PROSE_TOKENS, Evaluator
from model import EngramHash, exact_control, load_checkpoint
from safetensors.torch import save_file
from torch import Tensor


def main() -> None:
    folder = Path(sys.argv[1])
    evaluator = Evaluator(folder, "cpu")
    model = load_checkpoint(folder, 8192)
    hasher = EngramHash(model.config, np.asarray(evaluator.map))
    ctl = exact_control(model.config)

    def run(ids: list[int]) -> tuple[Tensor, Tensor]:
        """Logits [N, V], and the log probability of each token after the first."""
        row = torch.tensor([ids])
        hidden, _ = model(row, hasher(row), ctl)
        logits = model.logits(hidden)[0]
        chosen = logits[:-1].log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]
        return logits, chosen

    def answered(task: str, low: int, high: int) -> list[int]:
        """The first item of that many tokens, prompt and answer."""
        for r in evaluator.items[task]:
            ids = r["prompt_ids"] + r["answer_ids"]
            if low <= len(ids) < high:
                return ids
        raise ValueError(task)

    long_prose = max((evaluator.encode(BOS + r["text"]) for r in evaluator.items["prose"]), key=len)
    sequences = {
        "prose": long_prose[:600],
        "recall": answered("recall", 900, 1200),
        "tool": answered("tool", 200, 600),
        "add_thinking": answered("add_thinking", 1, 99),
    }
    out: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, ids in sequences.items():
            logits, chosen = run(ids)
            out[name + ".input_ids"] = torch.tensor(ids)
            out[name + ".logits_last4"] = logits[-4:].clone()
            out[name + ".logprobs"] = chosen
        total, count, documents = 0.0, 0, []
        for r in evaluator.items["prose"]:
            ids = evaluator.encode(BOS + r["text"])[:PROSE_TOKENS]
            loss = -run(ids)[1].double().sum().item()
            documents.append({"tokens": len(ids) - 1, "loss": round(loss / (len(ids) - 1), 6)})
            total, count = total + loss, count + len(ids) - 1
    (folder / "reference").mkdir(exist_ok=True)
    save_file(out, folder / "reference/exact.safetensors")
    result = {
        "profile": "exact",
        "loss": round(total / count, 6),
        "tokens": count,
        "tokens_a_document": PROSE_TOKENS,
        "documents": documents,
    }
    (folder / "reference/held_out.json").write_text(json.dumps(result) + "\n")
    print({n: len(s) for n, s in sequences.items()}, result["loss"], count)


if __name__ == "__main__":
    main()
