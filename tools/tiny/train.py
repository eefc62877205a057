"""Trains the bundled checkpoint.

    python train.py WORK --seconds 1100

WORK holds the token file and the task shards of data.py. Progress is the share of --seconds that
was spent training; learning rate, sparsity, quantization and sequence length follow it. The state
is saved to WORK/state.pt at every checkpoint and resumed from there: same weights, same optimizer
state, same data order, same random probes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._inductor.config
import torch.nn.functional as F
from data import SEED, TINY
from evaluate import Evaluator, samples
from export import export
from model import Config, Control, EngramHash, Model, Shared, exact_control, index_loss, linear
from optimizer import Optimizer
from torch import Tensor

SPARSE_FROM = 0.30  # dense attention before, top-k after; the indexer learns all along
QUANTIZE_FROM = 0.80  # weights and caches through their stored formats
LONG_FROM = 0.72  # rows of 4,096 tokens instead of 512
DECAY_FROM = 0.60
TASK_SHARE = 0.45  # of the rows
TASK_WEIGHT = 2.0  # answers are few tokens among much prose
PROBES = 64  # query positions a row whose indexer loss is computed
EVERYTHING = 1 << 20  # a top-k that keeps all


class Batches:
    """Rows [B, L + 1] for a step: prose windows first, then task rows."""

    def __init__(self, work: Path, length: int, rows: int) -> None:
        self.work, self.length = work, length
        self.tasks = round(rows * TASK_SHARE)
        self.prose = rows - self.tasks
        self.tokens = np.load(work / "train.npy", mmap_mode="r")
        self.windows = (len(self.tokens) - length) // length - 1
        self.shard, self.loaded = -1, None
        self.order: tuple[int, Any] = (-1, None)

    def task_rows(self, first: int) -> tuple[np.ndarray, np.ndarray]:
        ids, weights = [], []
        for n in range(first, first + self.tasks):
            rows = max(64, 4096 * 512 // self.length)
            if n // rows != self.shard:
                self.shard = n // rows
                count = 1
                while (self.work / f"tasks-{self.length}-{count:03d}.npz").exists():
                    count += 1
                path = self.work / f"tasks-{self.length}-{self.shard % count:03d}.npz"
                with np.load(path) as z:
                    self.loaded = (z["ids"], z["weights"])
            ids.append(self.loaded[0][n % rows])
            weights.append(self.loaded[1][n % rows])
        return np.stack(ids), np.stack(weights)

    def get(self, step: int) -> tuple[Tensor, Tensor]:
        rows = []
        for n in range(step * self.prose, (step + 1) * self.prose):
            epoch, i = divmod(n, self.windows)
            if self.order[0] != epoch:
                rng = np.random.default_rng((SEED, self.length, epoch))
                self.order = (
                    epoch,
                    (rng.permutation(self.windows), int(rng.integers(self.length))),
                )
            order, offset = self.order[1]
            at = offset + int(order[i]) * self.length
            rows.append(self.tokens[at : at + self.length + 1])
        ids, weights = self.task_rows(step * self.tasks)
        everything = np.concatenate((np.stack(rows), ids)).astype(np.int32)
        wanted = np.concatenate(
            (
                np.ones((self.prose, self.length + 1), np.float32),
                weights.astype(np.float32) * TASK_WEIGHT,
            )
        )
        return torch.from_numpy(everything), torch.from_numpy(wanted)


def losses(
    model: Model,
    ids: Tensor,
    rows: Tensor,
    weights: Tensor,
    ctl: Control,
    prose: int,
    dtype: torch.dtype,
) -> dict[str, Any]:
    """ids and weights [B, L + 1]; rows [B, L, layers, columns] of the Engram tables."""
    hidden, shared = model(ids[:, :-1], rows, ctl, dtype, Shared())
    logits = linear(hidden, model.head).float()
    targets, w = ids[:, 1:].long(), weights[:, 1:]
    ce = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(w)
    balance = torch.stack(shared.balance_loss).mean()
    total = (ce * w).sum() / w.sum() + 1e-3 * balance
    with torch.no_grad():
        task_w = w[prose:]
        tasks = (ce[prose:].detach() * task_w).sum() / task_w.sum().clamp(min=1)
    return {
        "total": total,
        "prose": ce[:prose].detach().mean(),
        "tasks": tasks,
        "load": torch.stack(shared.load),
        "probes": shared.probes,
    }


def backward(out: dict[str, Any]) -> None:
    """Adds the indexer's losses and runs the backward pass."""
    index = torch.stack([index_loss(*probe) for probe in out.pop("probes")])
    (out["total"] + index.sum()).backward()
    out["index"] = index.detach()


def learning_rate(progress: float, step: int) -> float:
    warm = min(1.0, (step + 1) / 100)
    decay = (
        1.0 if progress < DECAY_FROM else max(0.02, 1 - (progress - DECAY_FROM) / (1 - DECAY_FROM))
    )
    return warm * decay


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.device = args.device
        torch.manual_seed(SEED)
        torch.backends.cuda.matmul.allow_tf32 = True
        if hasattr(torch._inductor.config.triton, "mix_order_reduction"):
            torch._inductor.config.triton.mix_order_reduction = False
        self.dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
        self.config = Config.load(args.model / "config.json")
        self.model = Model(self.config, 8192).to(self.device)
        for part in args.init:
            weights = torch.load(part, map_location="cpu", weights_only=True)
            self.model.load_state_dict(weights, strict=False)
        self.optimizer = Optimizer(self.model, args.lr, args.adam_lr, 0.1)
        self.evaluator = Evaluator(args.model, self.device)
        self.hasher = EngramHash(self.config, self.evaluator.map).to(self.device)
        self.ctl = exact_control(self.config, False, self.device)
        self.ctl.exact = args.device != "cuda"
        self.step, self.elapsed, self.long_steps = 0, 0.0, 0
        self.log = (args.work / "log.jsonl").open("a")
        state = args.work / "state.pt"
        if state.exists():
            self.resume(state)
        self.compiled = torch.compile(losses, dynamic=False) if args.compile else losses

    def write(self, **entry: Any) -> None:
        line = json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in entry.items()})
        print(line, flush=True)
        self.log.write(line + "\n")
        self.log.flush()

    def masters(self) -> dict[str, Tensor]:
        """The model's state with master weights in place of quantized ones."""
        out = dict(self.model.state_dict())
        names = {id(p): n for n, p in self.model.named_parameters()}
        for _, _, params, master, _ in self.optimizer.stacks:
            out |= {names[id(p)]: m for p, m in zip(params, master, strict=True)}
        for s in self.optimizer.plain:
            out |= {names[id(p)]: m for p, m in zip(s[3], s[4], strict=True)}
        return out

    def resume(self, path: Path) -> None:
        saved = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load(saved["optimizer"])
        self.step, self.elapsed = saved["step"], saved["elapsed"]
        self.long_steps = saved["long_steps"]
        self.write(event="resumed", step=self.step, elapsed=self.elapsed)

    def save(self) -> None:
        work = self.args.work
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state(),
            "step": self.step,
            "elapsed": self.elapsed,
            "long_steps": self.long_steps,
        }
        torch.save(state, work / "state.tmp")
        (work / "state.tmp").rename(work / "state.pt")
        masters = self.masters()  # in bf16 and in parts, as a small copy to carry away
        names = sorted(masters)
        for i in range(2):
            part = {n: masters[n].bfloat16().cpu() for n in names[i::2]}
            torch.save(part, work / f"masters-{i}.pt")
        snapshot = Model(self.config, 16)
        snapshot.load_state_dict({k: v.cpu() for k, v in masters.items()}, strict=False)
        folder = work / "export"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text((self.args.model / "config.json").read_text())
        export(snapshot, folder)

    def evaluate(self, limit: int) -> None:
        self.evaluator.limit = limit
        ctl = exact_control(self.config, self.optimizer.quantize, self.device)
        if int(self.ctl.top_k) == EVERYTHING:
            ctl.top_k.fill_(EVERYTHING)
            ctl.top_blocks.fill_(EVERYTHING)
        ctl.exact = self.ctl.exact
        result = self.evaluator.all(self.model, self.hasher, ctl, self.dtype)
        self.write(event="evaluation", step=self.step, **result)

    def train(self) -> None:
        args, c = self.args, self.config
        batches = {"short": Batches(args.work, args.short, args.tokens // args.short)}
        start, base, shown_step = time.monotonic(), self.elapsed, self.step
        if args.compile_long_only:  # in a second process: fills the on-disk compile cache
            self.one_step(self.long_batches(), 0, 0.0, update=False)
            self.write(event="long graph compiled", seconds=time.monotonic() - start)
            return
        if args.check:
            self.compare(batches["short"])
        else:
            self.one_step(batches["short"], 0, 0.0, update=False)
        self.write(event="compiled and checked", seconds=time.monotonic() - start)
        start = shown = saved = evaluated = time.monotonic()
        while self.elapsed < args.seconds:
            progress = self.elapsed / args.seconds
            sparse = progress >= SPARSE_FROM
            self.ctl.top_k.fill_(c.index_topk if sparse else EVERYTHING)
            self.ctl.top_blocks.fill_(c.candidate_topk_blocks if sparse else EVERYTHING)
            self.optimizer.quantize = progress >= QUANTIZE_FROM
            self.ctl.quantize.fill_(self.optimizer.quantize)
            if progress >= LONG_FROM:
                source, index = self.long_batches(), self.long_steps
                self.long_steps += 1
            else:
                source, index = batches["short"], self.step
            out = self.one_step(source, index, progress)
            self.step += 1
            now = time.monotonic()
            self.elapsed = base + now - start
            if self.step % 25 == 0:
                if (args.work / "seconds").exists():  # a longer or shorter run, decided later
                    args.seconds = float((args.work / "seconds").read_text())
                tokens = (self.step - shown_step) * args.tokens
                load = out["load"]
                now = time.monotonic()
                self.write(
                    step=self.step,
                    seconds=round(self.elapsed, 1),
                    prose=out["prose"].item(),
                    tasks=out["tasks"].item(),
                    index=[round(x, 4) for x in out["index"].tolist()],
                    norm=out["norm"].item(),
                    rate=learning_rate(progress, self.step),
                    load=[round(load.min().item(), 3), round(load.max().item(), 3)],
                    tokens_per_second=round(tokens / (now - shown)),
                )
                shown, shown_step = now, self.step
            if now - evaluated > args.evaluate_every:
                self.evaluate(40)
                evaluated = shown = time.monotonic()
                shown_step = self.step
            if now - saved > args.save_every:
                self.save()
                saved = shown = time.monotonic()
                shown_step = self.step
        self.save()
        self.evaluate(200)
        ctl = exact_control(c, True, self.device)
        ctl.exact = self.ctl.exact
        text = samples(self.evaluator, self.model, self.hasher, ctl, self.dtype)
        (args.work / "samples.txt").write_text(text)
        print(text, flush=True)
        self.write(event="done", step=self.step, long_steps=self.long_steps)

    def long_batches(self) -> Batches:
        if not hasattr(self, "_long"):
            args = self.args
            self._long = Batches(args.work, args.long, max(2, args.tokens // args.long))
        return self._long

    def compare(self, source: Batches) -> None:
        """Losses and gradients of the compiled step against the same step uncompiled.

        A wrong kernel trains almost as well as a right one, so look before training.
        """
        seen: list[dict[str, Tensor]] = []
        for step in (self.compiled, losses):
            kept, self.compiled = self.compiled, step
            out = self.one_step(source, 0, 0.0, update=False, keep=True)
            self.compiled = kept
            seen.append(
                {n: p.grad for n, p in self.model.named_parameters()}
                | {"prose": out["prose"], "tasks": out["tasks"], "index": out["index"]}
            )
            self.model.zero_grad(set_to_none=True)
        off = {
            n: ((a - b).norm() / (b.norm() + 1e-12)).item()
            for (n, a), b in zip(seen[0].items(), seen[1].values(), strict=True)
        }
        worst = sorted(off.items(), key=lambda x: -x[1])[:12]
        self.write(
            event="compiled against uncompiled",
            worst=[[n, round(x, 4)] for n, x in worst],
            index=[seen[i]["index"].tolist() for i in (0, 1)],
        )
        del seen
        if self.device == "cuda":
            torch.cuda.empty_cache()
        if max(off["prose"], off["tasks"], off["index"]) > 0.05:
            raise RuntimeError("the compiled step computes something else")

    def one_step(
        self, source: Batches, index: int, progress: float, update: bool = True, keep: bool = False
    ) -> dict[str, Tensor]:
        ids, weights = source.get(index)
        if self.device == "cuda":
            ids = ids.pin_memory().to("cuda", non_blocking=True)
            weights = weights.pin_memory().to("cuda", non_blocking=True)
        rows = self.hasher(ids[:, :-1].long())
        rng = np.random.default_rng((SEED, 3, self.step))
        probe = np.sort(rng.choice(source.length, min(PROBES, source.length), replace=False))
        self.ctl.probe = torch.from_numpy(probe).to(self.device)
        out = self.compiled(self.model, ids, rows, weights, self.ctl, source.prose, self.dtype)
        backward(out)
        if update:
            out["norm"] = self.optimizer.step(learning_rate(progress, self.step))
            gamma = 5e-3 if progress < 0.04 else 1e-3 if progress < 0.9 else 0.0
            with torch.no_grad():
                mean = self.config.num_experts_per_tok / self.config.n_routed_experts
                for layer, load in zip(self.model.layers, out["load"], strict=True):
                    layer.gate_bias.add_(torch.sign(mean - load), alpha=gamma)
        if not keep:
            self.model.zero_grad(set_to_none=True)
        return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", type=Path, default=TINY)
    parser.add_argument("--seconds", type=float, default=1100)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, default=65536, help="tokens a step")
    parser.add_argument("--short", type=int, default=512)
    parser.add_argument("--long", type=int, default=4096)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--adam-lr", type=float, default=3e-3)
    parser.add_argument("--save-every", type=float, default=180)
    parser.add_argument("--evaluate-every", type=float, default=120)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compare the compiled step with the uncompiled one first",
    )
    parser.add_argument(
        "--init",
        type=Path,
        nargs="*",
        default=[],
        help="start from these masters-N.pt instead of random weights",
    )
    parser.add_argument("--compile-long-only", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    Trainer(args).train()


if __name__ == "__main__":
    main()
