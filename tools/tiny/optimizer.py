"""Muon for matrices, AdamW for the rest, over master weights that may be quantized.

The model's parameters are what the forward pass uses; the masters are what is updated. After a
step the parameters are the masters, or, with quantization on, the masters through the stored
formats (straight-through gradients: the gradient of a parameter is applied to its master).
Matrices of one shape are kept stacked, so that both the orthogonalization and the fake quantizer
are few batched kernels.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from model import EXPERT_PARTS, FP8_TILES, Model
from quant import fake_fp4_groups, fake_fp8_groups, fake_fp8_tiles
from torch import Tensor, nn

MUON = FP8_TILES | frozenset((*EXPERT_PARTS, "comp_wkv", "comp_wgate", "idx_wk"))
Parameter = nn.Parameter


def orthogonalize(g: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz iteration of Muon on the last two axes, in bf16."""
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.mT if tall else x).float()


def stored_form(name: str) -> str:
    if name in FP8_TILES:
        return "fp8"
    if name in EXPERT_PARTS:
        return "expert"
    if name == "engram_embed":
        return "rows"
    return "fp32" if name == "attn_sink" or name.startswith("hc_") else "bf16"


def through(form: str, w: Tensor) -> Tensor:
    """Master weights to the values their stored form keeps."""
    if form == "fp8":
        return fake_fp8_tiles(w)
    if form == "expert":  # [..., experts and the shared one, out, in]
        return torch.cat(
            (fake_fp4_groups(w[..., :-1, :, :]), fake_fp8_tiles(w[..., -1:, :, :])), -3
        )
    if form == "rows":
        return fake_fp8_groups(w)
    return w.bfloat16().float() if form == "bf16" else w


class Optimizer:
    def __init__(self, model: Model, lr: float, adam_lr: float, decay: float) -> None:
        self.lr, self.adam_lr, self.decay = lr, adam_lr, decay
        self.quantize = False
        self.count = 0
        stacks: dict[tuple[Any, ...], list[Parameter]] = defaultdict(list)
        plain: dict[tuple[float, float, str], list[Parameter]] = defaultdict(list)
        for full, p in model.named_parameters():
            name = full.rsplit(".", 1)[-1]
            form = stored_form(name)
            if name in MUON:
                split = {
                    "wo_a": model.config.o_groups,
                    "engram_wkv": model.config.hc_mult + 1,
                }.get(name, 1)
                stacks[(form, split, tuple(p.shape))].append(p)
            else:
                rate = 0.3 if name.startswith("hc_") else 5.0 if form == "rows" else 1.0
                decays = decay if name in ("embed", "head", "gate", "idx_weights") else 0.0
                plain[(rate, decays, form)].append(p)
        self.stacks = []
        for (form, split, _), params in stacks.items():
            master = torch.stack([p.detach() for p in params])
            self.stacks.append((form, split, params, master, torch.zeros_like(master)))
        self.plain = []
        for (rate, decays, form), params in plain.items():
            masters = [p.detach().clone() for p in params]
            self.plain.append(
                (
                    rate,
                    decays,
                    form,
                    params,
                    masters,
                    [torch.zeros_like(m) for m in masters],
                    [torch.zeros_like(m) for m in masters],
                )
            )

    @torch.no_grad()
    def step(self, scale: float) -> Tensor:
        """One update at `scale` times the base rates; returns the gradient norm."""
        self.count += 1
        everything = [p.grad for s in self.stacks for p in s[2]] + [
            p.grad for s in self.plain for p in s[3]
        ]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(everything)))
        clip = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(everything, clip)
        for _, split, params, master, momentum in self.stacks:
            g = torch.stack([p.grad for p in params])
            momentum.lerp_(g, 0.05)
            g = g.lerp(momentum, 0.95)
            shape = g.shape
            if split > 1:
                g = g.unflatten(-2, (split, -1))
            update = orthogonalize(g)
            factor = 0.2 * max(update.shape[-2:]) ** 0.5
            master.mul_(1 - scale * self.lr * self.decay)
            master.add_(update.reshape(shape), alpha=-scale * self.lr * factor)
        b1, b2 = 0.9, 0.95
        for rate, decays, _, params, masters, first, second in self.plain:
            grads = [p.grad for p in params]
            torch._foreach_lerp_(first, grads, 1 - b1)
            torch._foreach_mul_(second, b2)
            torch._foreach_addcmul_(second, grads, grads, 1 - b2)
            root = torch._foreach_sqrt(second)
            torch._foreach_mul_(root, (1 - b2**self.count) ** -0.5)
            torch._foreach_add_(root, 1e-10)
            lr = scale * self.adam_lr * rate
            if decays:
                torch._foreach_mul_(masters, 1 - lr * decays)
            torch._foreach_addcdiv_(masters, first, root, -lr / (1 - b1**self.count))
        self.publish()
        return norm

    @torch.no_grad()
    def publish(self) -> None:
        """Masters into the model's parameters, through the stored formats when quantizing."""
        for form, _, params, master, _ in self.stacks:
            w = through(form, master) if self.quantize else master
            torch._foreach_copy_([p.data for p in params], list(w.unbind(0)))
        for _, _, form, params, masters, _, _ in self.plain:
            values = [through(form, m) for m in masters] if self.quantize else masters
            torch._foreach_copy_([p.data for p in params], values)

    def state(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "quantize": self.quantize,
            "stacks": [s[3:] for s in self.stacks],
            "plain": [s[4:] for s in self.plain],
        }

    @torch.no_grad()
    def load(self, state: dict[str, Any]) -> None:
        self.count, self.quantize = state["count"], state["quantize"]
        for mine, saved in zip(self.stacks, state["stacks"], strict=True):
            for a, b in zip(mine[3:], saved, strict=True):
                a.copy_(b)
        for mine, saved in zip(self.plain, state["plain"], strict=True):
            for a, b in zip(mine[4:], saved, strict=True):
                torch._foreach_copy_(a, b)
        self.publish()
