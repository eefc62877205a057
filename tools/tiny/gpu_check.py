"""Compares the Triton operations with their definitions; run once on a new GPU."""

from __future__ import annotations

import sys

import torch
from ops import sinkhorn, sinkhorn_reference, top_k_mask, top_k_mask_reference


def main() -> int:
    torch.manual_seed(0)
    a = (torch.randn(1000, 7, 4, 4, device="cuda") * 2).requires_grad_()
    b = a.detach().clone().requires_grad_()
    g = torch.randn_like(a)
    mine, want = sinkhorn(a, 20, 1e-6), sinkhorn_reference(b, 20, 1e-6)
    (mine * g).sum().backward()
    (want * g).sum().backward()
    forward = (mine - want).abs().max().item()
    backward = (a.grad - b.grad).abs().max().item()
    wrong = 0
    for n in (32, 256, 512, 2048, 4096):
        scores = torch.randn(64, n, device="cuda")
        scores[:8, n // 2 :] = -torch.inf
        k = torch.tensor(64, dtype=torch.int32, device="cuda")
        mask = top_k_mask(scores, k, exact=False)
        wrong += (mask != top_k_mask_reference(scores, 64)).sum().item()
    print(f"sinkhorn {forward:.1e} {backward:.1e}, top-k mask differences {wrong}")
    return int(forward > 1e-5 or backward > 1e-4 or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
