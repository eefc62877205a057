"""Two small operations that decide the training speed: Sinkhorn and the top-k mask.

On a GPU each is one Triton kernel; on a CPU each is plain PyTorch, which is also the definition.
Both are opaque to torch.compile, which keeps the compiled graph small.
"""

# Triton kernels and PyTorch hooks take no types, and compile-time constants are capitals.

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU-only PyTorch has no Triton and needs none
    triton = None

if triton is not None:

    @triton.jit
    def _sinkhorn_forward(
        a, c, n, ITERS: tl.constexpr, EPS: tl.constexpr, S: tl.constexpr, BLOCK: tl.constexpr
    ):
        row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        i = tl.arange(0, S)
        at = row[:, None, None] * (S * S) + i[None, :, None] * S + i[None, None, :]
        ok = (row < n)[:, None, None]
        x = tl.load(a + at, mask=ok, other=0.0)
        x = tl.exp(x - tl.max(x, 2, keep_dims=True))
        x = x / tl.sum(x, 2, keep_dims=True) + EPS
        x = x / (tl.sum(x, 1, keep_dims=True) + EPS)
        for _ in range(ITERS - 1):
            x = x / (tl.sum(x, 2, keep_dims=True) + EPS)
            x = x / (tl.sum(x, 1, keep_dims=True) + EPS)
        tl.store(c + at, x, mask=ok)

    @triton.jit
    def _sinkhorn_backward(
        a,
        dc,
        da,
        sums,
        n,
        ITERS: tl.constexpr,
        EPS: tl.constexpr,
        S: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        # Runs the forward pass again, keeping only the divisors; walking back, each earlier
        # matrix is the later one times its divisor.
        row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        i = tl.arange(0, S)
        at = row[:, None, None] * (S * S) + i[None, :, None] * S + i[None, None, :]
        ok = (row < n)[:, None, None]
        by_row = sums + row[:, None, None] * S + i[None, :, None]
        by_column = sums + row[:, None, None] * S + i[None, None, :]
        x = tl.load(a + at, mask=ok, other=0.0)
        x = tl.exp(x - tl.max(x, 2, keep_dims=True))
        x = x / tl.sum(x, 2, keep_dims=True) + EPS
        s = tl.sum(x, 1, keep_dims=True) + EPS
        tl.store(by_column, s, mask=ok)
        x = x / s
        for k in range(1, ITERS):
            s_row = tl.sum(x, 2, keep_dims=True) + EPS
            tl.store(by_row + (2 * k - 1) * n * S, s_row, mask=ok)
            x = x / s_row
            s = tl.sum(x, 1, keep_dims=True) + EPS
            tl.store(by_column + (2 * k) * n * S, s, mask=ok)
            x = x / s
        tl.debug_barrier()
        g = tl.load(dc + at, mask=ok, other=0.0)
        for k2 in range(1, ITERS):
            k = ITERS - k2
            s = tl.load(by_column + (2 * k) * n * S, mask=ok, other=1.0)
            g = (g - tl.sum(g * x, 1, keep_dims=True)) / s
            x = x * s
            s_row = tl.load(by_row + (2 * k - 1) * n * S, mask=ok, other=1.0)
            g = (g - tl.sum(g * x, 2, keep_dims=True)) / s_row
            x = x * s_row
        s = tl.load(by_column, mask=ok, other=1.0)
        g = (g - tl.sum(g * x, 1, keep_dims=True)) / s
        x = x * s - EPS
        tl.store(da + at, x * (g - tl.sum(g * x, 2, keep_dims=True)), mask=ok)

    @triton.jit
    def _top_k_mask(scores, out, k_at, n, WIDTH: tl.constexpr):
        # Finds the k-th largest key bit by bit: 32 counting passes over registers.
        row = tl.program_id(0).to(tl.int64)
        j = tl.arange(0, WIDTH)
        x = tl.load(scores + row * n + j, mask=j < n, other=float("-inf"))
        bits = x.to(tl.uint32, bitcast=True)
        key = tl.where(bits >= 0x80000000, bits ^ 0xFFFFFFFF, bits | 0x80000000)
        k = tl.load(k_at)
        threshold = tl.zeros((), tl.uint32)
        for b in range(32):
            candidate = threshold | (tl.full((), 1, tl.uint32) << (31 - b))
            count = tl.sum((key >= candidate).to(tl.int32), 0)
            threshold = tl.where(count >= k, candidate, threshold)
        keep = (key >= threshold) & (x > float("-inf"))
        tl.store(out + row * n + j, keep.to(tl.int8), mask=j < n)


def sinkhorn_reference(a: Tensor, iterations: int, eps: float) -> Tensor:
    c = a.softmax(-1) + eps
    c = c / (c.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        c = c / (c.sum(-1, keepdim=True) + eps)
        c = c / (c.sum(-2, keepdim=True) + eps)
    return c


@torch.library.custom_op("tiny::sinkhorn_fwd", mutates_args=())
def _sinkhorn_fwd(a: Tensor, iterations: int, eps: float) -> Tensor:
    n, size = a.numel() // a.shape[-1] ** 2, a.shape[-1]
    c = torch.empty_like(a)
    _sinkhorn_forward[(triton.cdiv(n, 64),)](a, c, n, iterations, eps, size, 64, num_warps=2)
    return c


@torch.library.custom_op("tiny::sinkhorn_bwd", mutates_args=())
def _sinkhorn_bwd(a: Tensor, dc: Tensor, iterations: int, eps: float) -> Tensor:
    n, size = a.numel() // a.shape[-1] ** 2, a.shape[-1]
    da = torch.empty_like(a)
    sums = torch.empty(2 * iterations, n, size, device=a.device, dtype=torch.float32)
    _sinkhorn_backward[(triton.cdiv(n, 64),)](
        a, dc.contiguous(), da, sums, n, iterations, eps, size, 64, num_warps=2
    )
    return da


@_sinkhorn_fwd.register_fake
def _(a: Tensor, iterations: int, eps: float) -> Tensor:
    return torch.empty_like(a)


@_sinkhorn_bwd.register_fake
def _(a: Tensor, dc: Tensor, iterations: int, eps: float) -> Tensor:
    return torch.empty_like(a)


def _sinkhorn_context(ctx, inputs, output) -> None:
    a, ctx.iterations, ctx.eps = inputs
    ctx.save_for_backward(a)


def _sinkhorn_gradient(ctx, dc: Tensor):
    return _sinkhorn_bwd(ctx.saved_tensors[0], dc, ctx.iterations, ctx.eps), None, None


_sinkhorn_fwd.register_autograd(_sinkhorn_gradient, setup_context=_sinkhorn_context)


def sinkhorn(a: Tensor, iterations: int, eps: float) -> Tensor:
    """Sinkhorn normalization of [..., S, S] fp32 matrices (model.md 5)."""
    if a.is_cuda:
        return _sinkhorn_fwd(a.contiguous(), iterations, eps)
    return sinkhorn_reference(a, iterations, eps)


def top_k_mask_reference(scores: Tensor, k: int) -> Tensor:
    """True at the k largest scores of each row, lower index first on ties; never at -inf."""
    order = scores.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    mask = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, order, True)
    return mask & (scores > -torch.inf)


@torch.library.custom_op("tiny::top_k_mask", mutates_args=())
def _top_k_mask_cuda(scores: Tensor, k: Tensor) -> Tensor:
    n = scores.shape[-1]
    out = torch.empty(scores.shape, device=scores.device, dtype=torch.int8)
    width = triton.next_power_of_2(n)
    _top_k_mask[(scores.numel() // n,)](
        scores, out, k, n, width, num_warps=max(1, min(8, width // 256))
    )
    return out


@_top_k_mask_cuda.register_fake
def _(scores: Tensor, k: Tensor) -> Tensor:
    return torch.empty(scores.shape, device=scores.device, dtype=torch.int8)


def top_k_mask(scores: Tensor, k: Tensor, exact: bool) -> Tensor:
    """Top-k as a mask. k is an int32 scalar tensor, so that changing it compiles nothing again.

    The fast path keeps all entries equal to the k-th score; the exact path follows the tie rule.
    """
    if scores.is_cuda and not exact:
        return _top_k_mask_cuda(scores.contiguous(), k).bool()
    return top_k_mask_reference(scores, min(int(k), scores.shape[-1]))


@torch.library.custom_op("tiny::attention_mass", mutates_args=())
def attention_mass(q: Tensor, keys: Tensor, visible: Tensor) -> Tensor:
    """Attention of q [B, Q, heads, D] over visible [Q, n] keys [B, n, D], summed over heads."""
    b, queries, heads, d = q.shape
    s = torch.bmm(q.reshape(b, queries * heads, d), keys.transpose(1, 2)).float() * d**-0.5
    s = s.view(b, queries, heads, -1).masked_fill(~visible.unsqueeze(1), -1e30)
    return s.softmax(-1).sum(2)


@attention_mass.register_fake
def _(q: Tensor, keys: Tensor, visible: Tensor) -> Tensor:
    return q.new_empty((q.shape[0], q.shape[1], keys.shape[1]), dtype=torch.float32)
