"""The whole text model in PyTorch, written from the numerical specification (model.md).

It is both the trained model and a second check of the C++ forward pass: `Model.forward` runs a
batch of sequences from position 0 in one pass. Weights are kept in training layout (experts
stacked, the shared expert last); `load_checkpoint` fills them from the official format.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from ops import attention_mass, sinkhorn, top_k_mask
from quant import fake_fp4_e4m3, fake_fp4_groups, fake_fp8_groups, power_of_two, unpack_e2m1
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """`text_config` of config.json; only the keys that change the arithmetic."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    qk_rope_head_dim: int
    q_lora_rank: int
    o_groups: int
    o_lora_rank: int
    moe_intermediate_size: int
    n_routed_experts: int
    num_experts_per_tok: int
    sliding_window: int
    compress_ratios: list[int]
    kv_source_layer_ids: list[int]
    index_source_layer_ids: list[int]
    candidate_source_layer_id: int
    candidate_topk_blocks: int
    candidate_block_size: int
    index_n_heads: int
    index_head_dim: int
    index_topk: int
    engram_layer_ids: list[int]
    engram_vocab_size: int
    engram_num_embeddings: list[int]
    engram_max_ngram_size: int
    engram_n_heads: int
    engram_head_dim: int
    engram_compressed_vocab_size: int
    rope_scaling: dict[str, Any]
    engram_pad_token_id: int = 2
    rope_theta: float = 10000.0
    compress_rope_theta: float = 160000.0
    swiglu_limit: float = 10.0
    rms_norm_eps: float = 1e-20
    routed_scaling_factor: float = 1.5
    hc_mult: int = 4
    hc_sinkhorn_iters: int = 20
    hc_eps: float = 1e-6
    extra: dict[str, Any] = field(default_factory=dict, compare=False)

    @staticmethod
    def load(path: Path) -> Config:
        text = json.loads(path.read_text())["text_config"]
        known = {k: v for k, v in text.items() if k in Config.__dataclass_fields__}
        return Config(**known, extra={k: v for k, v in text.items() if k not in known})

    def source(self, ids: list[int], layer: int) -> int:
        return max(i for i in ids if i <= layer)


# --------------------------------------------------------------------------- Engram hashing


def is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def engram_primes(config: Config) -> list[list[int]]:
    """Per Engram layer the table sizes of its columns, n-gram size major (model.md 9.2)."""
    seen: set[int] = set()
    layers = []
    for _ in config.engram_layer_ids:
        columns = []
        for _ in range(2, config.engram_max_ngram_size + 1):
            start = config.engram_vocab_size - 1
            for _ in range(config.engram_n_heads):
                start += 1
                while start in seen or not is_prime(start):
                    start += 1
                seen.add(start)
                columns.append(start)
        layers.append(columns)
    return layers


def engram_multipliers(config: Config) -> np.ndarray:
    bound = max(1, (2**63 - 1) // config.engram_compressed_vocab_size // 2)
    n = config.engram_max_ngram_size
    return np.stack(
        [
            2 * np.random.default_rng(10007 * layer).integers(0, bound, size=n, dtype=np.int64) + 1
            for layer in config.engram_layer_ids
        ]
    )


class EngramHash(nn.Module):
    """Token ids [B, T] to absolute table rows [B, T, Engram layer, column]."""

    def __init__(self, config: Config, token_map: np.ndarray) -> None:
        super().__init__()
        primes = np.array(engram_primes(config), dtype=np.int64)
        offsets = np.cumsum(primes, 1) - primes
        assert primes.sum(1).tolist() == list(config.engram_num_embeddings)
        self.n = config.engram_max_ngram_size
        self.heads = config.engram_n_heads
        self.pad = int(token_map[config.engram_pad_token_id])
        for name, value in (
            ("token_map", token_map.astype(np.int64)),
            ("primes", primes),
            ("offsets", offsets),
            ("multipliers", engram_multipliers(config)),
        ):
            self.register_buffer(name, torch.from_numpy(value.copy()), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token_map[ids]
        columns = []
        mixed = x[..., None] * self.multipliers[:, 0]
        for back in range(1, self.n):
            shifted = F.pad(x, (back, 0), value=self.pad)[:, : x.shape[1]]
            mixed = mixed ^ (shifted[..., None] * self.multipliers[:, back])
            columns += [mixed] * self.heads
        return torch.stack(columns, -1) % self.primes + self.offsets


# --------------------------------------------------------------------------- rotary embedding


def rope_frequencies(config: Config, compressed: bool) -> Tensor:
    dim = config.qk_rope_head_dim
    theta = config.compress_rope_theta if compressed else config.rope_theta
    f = (1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)).float()
    if not compressed:
        return f
    scaling = config.rope_scaling
    original = scaling["original_max_position_embeddings"]

    def dim_for(rotations: float) -> float:
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(dim_for(scaling["beta_fast"])), 0)
    high: float = min(math.ceil(dim_for(scaling["beta_slow"])), dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    return f / scaling["factor"] * ramp + f * (1 - ramp)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the last R dims of x in interleaved pairs; cos and sin broadcast to [..., R/2]."""
    r = 2 * cos.shape[-1]
    head, tail = x[..., :-r], x[..., -r:].float().unflatten(-1, (-1, 2))
    a, b = tail[..., 0], tail[..., 1]
    turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    return torch.cat((head, turned.to(x.dtype)), -1)


# --------------------------------------------------------------------------- small pieces


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight.to(x.dtype))


def straight_through(x: Tensor, rounded: Tensor, enabled: Tensor) -> Tensor:
    """Rounded value forward where enabled, identity gradient."""
    y = x.float()
    if torch.is_grad_enabled():
        return (y + (torch.where(enabled, rounded, y) - y).detach()).to(x.dtype)
    return torch.where(enabled, rounded, y).to(x.dtype)


@dataclass
class Control:
    """Settings that change during training. Tensors, so that the compiled graph stays one."""

    top_k: Tensor  # int32: compressed entries kept; very large means dense
    top_blocks: Tensor  # int32: candidate blocks kept
    quantize: Tensor  # bool: cache quantization (the exact+cache profile)
    probe: Tensor | None = None  # int64 [Q]: query positions whose indexer loss is computed
    exact: bool = True  # reference top-k with the tie rule
    newest: bool = False  # ablation: the indexer is replaced by "newest entries"
    engram: bool = True  # ablation: Engram switched off
    memory: bool = True  # ablation: compressed memory cut off


def exact_control(config: Config, quantize: bool = False, device: str = "cpu") -> Control:
    return Control(
        torch.tensor(config.index_topk, dtype=torch.int32, device=device),
        torch.tensor(config.candidate_topk_blocks, dtype=torch.int32, device=device),
        torch.tensor(quantize, device=device),
    )


@dataclass
class Shared:
    """What layers hand to each other within one forward pass."""

    kv: Tensor | None = None  # [B, n, D] compressed entries
    index_k: Tensor | None = None  # [B, n, Di]
    visible: Tensor | None = None  # [T, n]
    selected: Tensor | None = None  # [B, T, n]
    candidates: Tensor | None = None  # [B, T, n]
    probe_scores: Tensor | None = None  # [B, Q, n] index scores with gradient
    probe_target: Tensor | None = None  # [B, Q, n] summed attention over entries
    probes: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    balance_loss: list[Tensor] = field(default_factory=list)
    load: list[Tensor] = field(default_factory=list)
    trace: dict[str, Tensor] | None = None


class Layer(nn.Module):
    def __init__(self, config: Config, index: int) -> None:
        super().__init__()
        c = config
        self.config = c
        self.index = index
        self.ratio = c.compress_ratios[index]
        self.is_kv_source = self.ratio > 0 and index in c.kv_source_layer_ids
        self.is_index_source = self.ratio > 0 and index in c.index_source_layer_ids
        self.is_candidate_source = index == c.candidate_source_layer_id
        self.in_candidates = self.is_index_source and index > c.candidate_source_layer_id >= 0
        h, d, s = c.hidden_size, c.head_dim, c.hc_mult

        def matrix(*shape: int, gain: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape) * gain / math.sqrt(shape[-1]))

        def ones(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.ones(*shape))

        self.attn_norm, self.ffn_norm = ones(h), ones(h)
        self.attn_sink = nn.Parameter(torch.zeros(c.num_attention_heads))
        self.wq_a, self.q_norm = matrix(c.q_lora_rank, h), ones(c.q_lora_rank)
        self.wq_b = matrix(c.num_attention_heads * d, c.q_lora_rank)
        self.wkv, self.kv_norm = matrix(d, h), ones(d)
        self.wo_a = matrix(c.o_groups * c.o_lora_rank, c.num_attention_heads * d // c.o_groups)
        self.wo_b = matrix(h, c.o_groups * c.o_lora_rank, gain=0.1)
        if self.is_kv_source:
            self.comp_wkv, self.comp_norm = matrix(d, h), ones(d)
            if self.ratio == 2:
                self.comp_wgate = matrix(d, h)
            self.idx_wk, self.idx_k_norm = matrix(c.index_head_dim, d), ones(c.index_head_dim)
        if self.is_index_source:
            self.idx_wq_b = matrix(c.index_n_heads * c.index_head_dim, c.q_lora_rank)
            self.idx_weights = matrix(c.index_n_heads, h)
            with torch.no_grad():  # start as a sum of heads, so that scores point the right way
                self.idx_weights.mul_(0.3)
        e, f = c.n_routed_experts + 1, c.moe_intermediate_size
        self.gate = matrix(c.n_routed_experts, h)
        self.register_buffer("gate_bias", torch.zeros(c.n_routed_experts))
        self.w1, self.w3 = matrix(e, f, h), matrix(e, f, h)
        self.w2 = matrix(e, h, f, gain=0.1)
        for site in ("attn", "ffn"):
            base = torch.cat(
                (torch.full((s,), -3.0), torch.zeros(s), (6 * torch.eye(s) - 3).flatten())
            )
            base[index % s] = 3.0
            self.register_parameter(f"hc_{site}_fn", nn.Parameter(torch.zeros(s * (s + 2), s * h)))
            self.register_parameter(f"hc_{site}_base", nn.Parameter(base))
            self.register_parameter(f"hc_{site}_scale", nn.Parameter(torch.full((3,), 0.01)))
        if index in c.engram_layer_ids:
            self.engram_slot = c.engram_layer_ids.index(index)
            rows = c.engram_num_embeddings[self.engram_slot]
            width = (c.engram_max_ngram_size - 1) * c.engram_n_heads * c.engram_head_dim
            self.engram_embed = nn.Parameter(torch.randn(rows, c.engram_head_dim) * 0.01)
            self.engram_wkv = matrix((s + 1) * h, width)
            self.engram_q, self.engram_k = ones(s, h), ones(s, h)
        else:
            self.engram_slot = -1

    # ------------------------------------------------------------------ hyper-connections

    def mixes(self, x: Tensor, site: str) -> tuple[Tensor, Tensor, Tensor]:
        c = self.config
        s = c.hc_mult
        fn, base, scale = (getattr(self, f"hc_{site}_{n}") for n in ("fn", "base", "scale"))
        flat = x.flatten(-2)
        r = torch.rsqrt(flat.float().square().mean(-1, keepdim=True) + c.rms_norm_eps)
        m = linear(flat, fn).float() * r
        pre = torch.sigmoid(m[..., :s] * scale[0] + base[:s]) + c.hc_eps
        post = 2 * torch.sigmoid(m[..., s : 2 * s] * scale[1] + base[s : 2 * s])
        a = (m[..., 2 * s :] * scale[2] + base[2 * s :]).unflatten(-1, (s, s))
        return pre, post, sinkhorn(a, c.hc_sinkhorn_iters, c.hc_eps)

    @staticmethod
    def collapse(x: Tensor, p: Tensor) -> Tensor:
        return (p.unsqueeze(-1) * x.float()).sum(-2).to(x.dtype)

    @staticmethod
    def expand(x: Tensor, y: Tensor, post: Tensor, comb: Tensor) -> Tensor:
        kept = (comb.unsqueeze(-1) * x.float().unsqueeze(-2)).sum(-3)
        return (post.unsqueeze(-1) * y.float().unsqueeze(-2) + kept).to(x.dtype)

    # ------------------------------------------------------------------ attention

    def compress(self, v: Tensor, tables: dict[str, Tensor], shared: Shared, ctl: Control) -> None:
        """Compressed entries and index keys of a KV source layer (model.md 7.1, 7.2)."""
        c, r = self.config, self.ratio
        t = v.shape[1]
        n = t // r
        z = linear(v, self.comp_wkv)
        if r == 2:
            g = linear(v, self.comp_wgate).float()[:, : n * 2].unflatten(1, (n, 2))
            weights = g.softmax(2)
            z = (weights * z.float()[:, : n * 2].unflatten(1, (n, 2))).sum(2).to(v.dtype)
        latent = rms_norm(z, self.comp_norm, c.rms_norm_eps)
        cos, sin = tables["cos_c"][: n * r : r], tables["sin_c"][: n * r : r]
        kv = rope(latent, cos, sin)
        shared.kv = straight_through(kv, fake_fp4_e4m3(kv), ctl.quantize)
        k = rms_norm(linear(latent.detach(), self.idx_wk), self.idx_k_norm, c.rms_norm_eps)
        k = rope(k, cos, sin)
        shared.index_k = straight_through(k, fake_fp4_groups(k), ctl.quantize)
        position = torch.arange(t, device=v.device)
        shared.visible = torch.arange(n, device=v.device) < ((position + 1) // r).unsqueeze(-1)
        shared.candidates = None

    def index_scores(
        self, qa: Tensor, v: Tensor, cos: Tensor, sin: Tensor, shared: Shared, ctl: Control
    ) -> Tensor:
        """Unscaled scores [B, T, n] of every entry (model.md 7.3)."""
        c = self.config
        q = linear(qa, self.idx_wq_b).unflatten(-1, (c.index_n_heads, c.index_head_dim))
        q = rope(q, cos.unsqueeze(-2), sin.unsqueeze(-2))
        q = straight_through(q, fake_fp4_groups(q), ctl.quantize)
        a = linear(v, self.idx_weights)
        b, t = q.shape[:2]
        dots = torch.bmm(q.reshape(b, t * c.index_n_heads, -1), shared.index_k.transpose(1, 2))
        dots = dots.view(b, t, c.index_n_heads, -1)
        return (a.float().unsqueeze(-1) * dots.float().relu()).sum(2)

    @torch.no_grad()
    def select(
        self, qa: Tensor, v: Tensor, tables: dict[str, Tensor], shared: Shared, ctl: Control
    ) -> None:
        """The entries every query attends to; at the candidate source also the kept blocks."""
        c = self.config
        t = v.shape[1]
        scores = self.index_scores(qa, v, tables["cos_c"][:t], tables["sin_c"][:t], shared, ctl)
        if ctl.newest:
            scores = torch.arange(scores.shape[-1], device=v.device).float().expand(scores.shape)
        scores = scores.masked_fill(~shared.visible, -torch.inf)
        if self.in_candidates and shared.candidates is not None:
            scores = scores.masked_fill(~shared.candidates, -torch.inf)
        if shared.trace is not None:
            shared.trace[f"index_scores.{self.index}"] = scores
        shared.selected = top_k_mask(scores, ctl.top_k, ctl.exact)
        if self.is_candidate_source:
            size, n = c.candidate_block_size, scores.shape[-1]
            blocks = F.pad(scores, (0, -n % size), value=-torch.inf)
            blocks = blocks.unflatten(-1, (-1, size)).amax(-1)
            count = shared.visible.sum(-1)
            last = torch.arange(blocks.shape[-1], device=v.device) == (
                (count - 1) // size
            ).unsqueeze(-1)
            blocks = blocks.masked_fill(last & (count > 0).unsqueeze(-1), torch.inf)
            kept = top_k_mask(blocks, ctl.top_blocks, ctl.exact)
            shared.candidates = kept.repeat_interleave(size, -1)[..., :n] & shared.visible
            if shared.trace is not None:
                shared.trace[f"candidate_blocks.{self.index}"] = kept

    def probe_start(
        self, qa: Tensor, v: Tensor, tables: dict[str, Tensor], shared: Shared, ctl: Control
    ) -> None:
        c, at = self.config, ctl.probe
        scores = self.index_scores(
            qa.detach()[:, at],
            v.detach()[:, at],
            tables["cos_c"][at],
            tables["sin_c"][at],
            shared,
            ctl,
        )
        shared.probe_scores = scores * (c.index_n_heads * c.index_head_dim) ** -0.5
        shared.probe_target = torch.zeros_like(scores)

    @torch.no_grad()
    def probe_add(self, q: Tensor, shared: Shared, ctl: Control) -> None:
        """Adds this layer's attention over all visible entries, summed over heads.

        The target stays the dense distribution after attention has become sparse: at this size
        it is cheap, and it teaches the indexer entries that it failed to select.
        """
        at = ctl.probe
        mass = attention_mass(q[:, at].detach(), shared.kv.detach(), shared.visible[at])
        shared.probe_target = shared.probe_target + mass

    def probe_end(self, shared: Shared, ctl: Control) -> None:
        shared.probes.append((shared.probe_scores, shared.probe_target, shared.visible[ctl.probe]))

    def core(self, q: Tensor, kv: Tensor, shared: Shared | None) -> Tensor:
        """Window and selected entries under one softmax with a sink (model.md 6.3)."""
        b, t, heads, d = q.shape
        w = self.config.sliding_window
        pad = -t % w
        blocks = (t + pad) // w
        scale = d**-0.5
        front = F.pad(kv, (0, 0, w, pad))
        keys = torch.cat(
            (front[:, : t + pad].reshape(b * blocks, w, d), front[:, w:].reshape(b * blocks, w, d)),
            1,
        )
        qb = F.pad(q, (0, 0, 0, 0, 0, pad)).reshape(b * blocks, w * heads, d)
        near = torch.bmm(qb, keys.transpose(1, 2)).float() * scale
        near = near.view(b, blocks, w, heads, 2 * w)
        i = torch.arange(w, device=q.device).view(w, 1)
        j = torch.arange(2 * w, device=q.device).view(1, 2 * w)
        band = ((j > i) & (j <= i + w)).unsqueeze(0).repeat(blocks, 1, 1)
        first = (torch.arange(blocks, device=q.device).view(-1, 1, 1) > 0) | (j >= w)
        near = near.masked_fill(~(band & first).unsqueeze(2), -torch.inf)
        sink = self.attn_sink
        if shared is not None:
            n = shared.kv.shape[1]
            far = torch.bmm(q.reshape(b, t * heads, d), shared.kv.transpose(1, 2)).float() * scale
            far = far.view(b, t, heads, n).masked_fill(~shared.selected.unsqueeze(2), -torch.inf)
            far_max = F.pad(far.detach().amax(-1), (0, 0, 0, pad)).view(b, blocks, w, heads)
            top = torch.maximum(near.detach().amax(-1), far_max)
        else:
            top = near.detach().amax(-1)
        top = torch.maximum(top, sink.detach())
        near = (near - top.unsqueeze(-1)).exp()
        total = near.sum(-1) + (sink - top).exp()
        out = torch.bmm(near.to(q.dtype).view(b * blocks, w * heads, 2 * w), keys)
        out = out.view(b, blocks * w, heads, d)[:, :t]
        total = total.view(b, blocks * w, heads)[:, :t]
        if shared is not None:
            far = (far - top.view(b, blocks * w, heads)[:, :t].unsqueeze(-1)).exp()
            total = total + far.sum(-1)
            out = out + torch.bmm(far.to(q.dtype).view(b, t * heads, n), shared.kv).view_as(out)
        return (out.float() / total.unsqueeze(-1)).to(q.dtype)

    def attention(
        self, v: Tensor, tables: dict[str, Tensor], shared: Shared, ctl: Control
    ) -> Tensor:
        c = self.config
        t = v.shape[1]
        kind = "c" if self.ratio else "w"
        cos, sin = tables["cos_" + kind][:t], tables["sin_" + kind][:t]
        qa = rms_norm(linear(v, self.wq_a), self.q_norm, c.rms_norm_eps)
        q = linear(qa, self.wq_b).unflatten(-1, (c.num_attention_heads, c.head_dim))
        q = rope(q, cos.unsqueeze(-2), sin.unsqueeze(-2))
        kv = rope(rms_norm(linear(v, self.wkv), self.kv_norm, c.rms_norm_eps), cos, sin)
        kv = straight_through(kv, fake_fp8_groups(kv), ctl.quantize)
        memory = None
        if self.ratio and t >= self.ratio:
            if self.is_kv_source:
                self.compress(v, tables, shared, ctl)
            if self.is_index_source:
                self.select(qa, v, tables, shared, ctl)
                if shared.trace is not None:
                    shared.trace[f"selected.{self.index}"] = shared.selected
                if ctl.probe is not None:
                    self.probe_start(qa, v, tables, shared, ctl)
            if ctl.probe is not None:
                self.probe_add(q, shared, ctl)
                following = self.index + 1
                if following == c.num_hidden_layers or following in c.index_source_layer_ids:
                    self.probe_end(shared, ctl)
            memory = shared if ctl.memory else None
        out = self.core(q, kv, memory)
        out = rope(out, cos.unsqueeze(-2), -sin.unsqueeze(-2))
        groups = out.flatten(-2).unflatten(-1, (c.o_groups, -1))
        wo_a = self.wo_a.unflatten(0, (c.o_groups, -1)).to(out.dtype)
        z = torch.einsum("btgi,goi->btgo", groups, wo_a).flatten(-2)
        return linear(z, self.wo_b)

    # ------------------------------------------------------------------ experts

    def route(self, v: Tensor, shared: Shared) -> Tensor:
        """Dense routing weights [B, T, E], zero for experts that were not picked (model.md 8.1)."""
        c = self.config
        k, e = c.num_experts_per_tok, c.n_routed_experts
        score = F.softplus(F.linear(v.float(), self.gate)).sqrt()
        biased = (score + self.gate_bias).detach()
        a, b = biased.unsqueeze(-1), biased.unsqueeze(-2)  # rank = how many experts come before
        lower = torch.arange(e, device=v.device).view(1, e) < torch.arange(e, device=v.device).view(
            e, 1
        )
        picked = (((b > a) | ((b == a) & lower)).sum(-1) < k).float()
        chosen = score * picked
        if shared.trace is not None:
            shared.trace[f"layers.{self.index}.route_idx"] = biased.sort(
                dim=-1, descending=True, stable=True
            ).indices[..., :k]
        if torch.is_grad_enabled():
            share = (score / score.sum(-1, keepdim=True)).mean(1)
            frequency = picked.mean(1) * (e / k)
            shared.balance_loss.append((frequency * share).sum(-1).mean())
        shared.load.append(picked.flatten(0, -2).mean(0).detach())
        return chosen / (chosen.sum(-1, keepdim=True) + 1e-20) * c.routed_scaling_factor

    def experts(self, v: Tensor, shared: Shared) -> Tensor:
        """All experts for all tokens, one product each way; the shared expert has weight one."""
        limit = self.config.swiglu_limit
        weights = self.route(v, shared)
        weights = torch.cat((weights, torch.ones_like(weights[..., :1])), -1)
        e = weights.shape[-1]
        g = linear(v, self.w1.flatten(0, 1)).float().clamp(max=limit)
        u = linear(v, self.w3.flatten(0, 1)).float().clamp(-limit, limit)
        f = (F.silu(g) * u).unflatten(-1, (e, -1)) * weights.unsqueeze(-1)
        return linear(f.flatten(-2).to(v.dtype), self.w2.transpose(0, 1).flatten(1))

    # ------------------------------------------------------------------ Engram

    def engram(self, x: Tensor, rows: Tensor, shared: Shared) -> Tensor:
        c = self.config
        s, h = c.hc_mult, c.hidden_size
        e = F.embedding(rows, self.engram_embed).flatten(-2).to(x.dtype)
        kv = linear(e, self.engram_wkv).float().unflatten(-1, (s + 1, h))
        key, value = kv[..., :s, :], kv[..., s:, :]
        wide = x.float()
        d = (wide * (self.engram_q.float() * self.engram_k.float()) * key).sum(-1)
        d = d * torch.rsqrt(wide.square().mean(-1) + c.rms_norm_eps)
        d = d * torch.rsqrt(key.square().mean(-1) + c.rms_norm_eps) * h**-0.5
        root = d.abs().clamp(min=1e-6).sqrt()
        gate = torch.sigmoid(torch.where(d < 0, -root, root))
        if shared.trace is not None:
            shared.trace[f"layers.{self.index}.engram_gate"] = gate
        return (wide + gate.unsqueeze(-1) * value).to(x.dtype)

    def forward(
        self,
        x: Tensor,
        p: Tensor,
        rows: Tensor,
        tables: dict[str, Tensor],
        shared: Shared,
        ctl: Control,
    ) -> tuple[Tensor, Tensor]:
        eps = self.config.rms_norm_eps
        if self.engram_slot >= 0 and ctl.engram:
            x = self.engram(x, rows[:, :, self.engram_slot], shared)
        pre, post, comb = self.mixes(x, "attn")
        y = self.attention(rms_norm(self.collapse(x, p), self.attn_norm, eps), tables, shared, ctl)
        x = self.expand(x, y, post, comb)
        p = pre
        pre, post, comb = self.mixes(x, "ffn")
        y = self.experts(rms_norm(self.collapse(x, p), self.ffn_norm, eps), shared)
        return self.expand(x, y, post, comb), pre


class Model(nn.Module):
    def __init__(self, config: Config, max_length: int) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Parameter(torch.randn(config.vocab_size, config.hidden_size) * 0.3)
        self.head = nn.Parameter(torch.randn(config.vocab_size, config.hidden_size) * 0.02)
        self.norm = nn.Parameter(torch.ones(config.hidden_size))
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.num_hidden_layers))
        position = torch.arange(max_length, dtype=torch.float32).unsqueeze(-1)
        for kind, compressed in (("w", False), ("c", True)):
            angle = position * rope_frequencies(config, compressed)
            self.register_buffer("cos_" + kind, angle.cos(), persistent=False)
            self.register_buffer("sin_" + kind, angle.sin(), persistent=False)

    def forward(
        self,
        ids: Tensor,
        rows: Tensor,
        ctl: Control,
        dtype: torch.dtype = torch.float32,
        shared: Shared | None = None,
    ) -> tuple[Tensor, Shared]:
        """ids [B, T] and Engram rows to normed hidden states [B, T, H]."""
        c = self.config
        shared = shared if shared is not None else Shared()
        tables = {n: getattr(self, n) for n in ("cos_w", "sin_w", "cos_c", "sin_c")}
        e = F.embedding(ids, self.embed).to(dtype)
        x = e.unsqueeze(-2).expand(-1, -1, c.hc_mult, -1).contiguous()
        p = torch.zeros(*ids.shape, c.hc_mult, device=ids.device)
        p[..., 0] = 1
        for layer in self.layers:
            x, p = layer(x, p, rows, tables, shared, ctl)
            if shared.trace is not None:
                shared.trace[f"layers.{layer.index}.out"] = x
        return rms_norm(Layer.collapse(x, p), self.norm, c.rms_norm_eps), shared

    def logits(self, hidden: Tensor) -> Tensor:
        return linear(hidden, self.head).float()


def index_loss(scores: Tensor, target: Tensor, visible: Tensor) -> Tensor:
    """KL(attention mass || softmax of index scores) over visible entries; scores, target
    [B, Q, n].

    Left outside the compiled graph: PyTorch 2.11's compiler got this reduction wrong for n = 256.
    """
    target = target * visible
    target = target / target.sum(-1, keepdim=True).clamp(min=1e-9)
    log_q = scores.masked_fill(~visible, -1e30).log_softmax(-1)
    return (target * (target.clamp(min=1e-9).log() - log_q)).sum(-1).mean()


# --------------------------------------------------------------------------- loading

PLAIN = {
    "attn_norm": "attn_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "attn_sink": "attn.attn_sink",
    "wq_a": "attn.wq_a",
    "q_norm": "attn.q_norm.weight",
    "wq_b": "attn.wq_b",
    "wkv": "attn.wkv",
    "kv_norm": "attn.kv_norm.weight",
    "wo_a": "attn.wo_a",
    "wo_b": "attn.wo_b",
    "comp_wkv": "attn.compressor.wkv.weight",
    "comp_wgate": "attn.compressor.wgate.weight",
    "comp_norm": "attn.compressor.norm.weight",
    "idx_wk": "attn.indexer.wk.weight",
    "idx_k_norm": "attn.indexer.k_norm.weight",
    "idx_wq_b": "attn.indexer.wq_b",
    "idx_weights": "attn.indexer.weights_proj.weight",
    "gate": "ffn.gate.weight",
    "gate_bias": "ffn.gate.bias",
    "engram_embed": "engram.embed",
    "engram_wkv": "engram.wkv",
    "engram_q": "engram.q_weight",
    "engram_k": "engram.k_weight",
}
PLAIN |= {f"hc_{s}_{n}": f"hc_{s}_{n}" for s in ("attn", "ffn") for n in ("fn", "base", "scale")}
FP8_TILES = frozenset(("wq_a", "wq_b", "wkv", "wo_a", "wo_b", "idx_wq_b", "engram_wkv"))
EXPERT_PARTS = ("w1", "w2", "w3")


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """A plain reader: safetensors' own lacks names for some of the dtypes in some versions."""
    kinds = {
        "BF16": torch.bfloat16,
        "F32": torch.float32,
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E8M0": torch.uint8,
        "I8": torch.int8,
        "U8": torch.uint8,
        "I64": torch.int64,
        "I32": torch.int32,
    }
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    out = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            a, b = (8 + size + o for o in entry["data_offsets"])
            raw = torch.frombuffer(bytearray(data[a:b]), dtype=torch.uint8)
            out[name] = raw.view(kinds[entry["dtype"]]).reshape(entry["shape"])
    return out


def dequantize(tensors: dict[str, Tensor], name: str) -> Tensor:
    """`name` without suffix: any stored weight as exact fp32."""
    weight = tensors[name + ".weight"]
    scale = power_of_two(tensors[name + ".scale"].to(torch.int32) - 127)
    values = unpack_e2m1(weight) if weight.dtype == torch.int8 else weight.float()
    if scale.shape[0] != values.shape[0]:
        scale = scale.repeat_interleave(32, 0)
    return values * scale.repeat_interleave(32, 1)


@torch.no_grad()
def load_checkpoint(folder: Path, max_length: int) -> Model:
    model = Model(Config.load(folder / "config.json"), max_length)
    tensors = read_safetensors(folder / "model.safetensors")

    def get(name: str) -> Tensor:
        return tensors[name].float() if name in tensors else dequantize(tensors, name)

    model.embed.copy_(get("embed.weight"))
    model.head.copy_(get("head.weight"))
    model.norm.copy_(get("norm.weight"))
    for layer in model.layers:
        prefix = f"layers.{layer.index}."
        for name, suffix in PLAIN.items():
            if hasattr(layer, name):
                getattr(layer, name).copy_(get(prefix + suffix))
        for part in EXPERT_PARTS:
            for e in range(model.config.n_routed_experts):
                getattr(layer, part)[e].copy_(get(f"{prefix}ffn.experts.{e}.{part}"))
            getattr(layer, part)[-1].copy_(get(f"{prefix}ffn.shared_experts.{part}"))
    return model.eval()
