"""The stored number formats of the checkpoint, as fake quantizers and as byte encoders.

One function finds codes and scales for each format; the fake quantizer and the exporter both
use it, so the exported bytes are exactly what training saw (model.md 4.3 to 4.5).
"""

from __future__ import annotations

import torch
from torch import Tensor

E4M3_MAX = 448.0
E2M1_MAX = 6.0
TILE = 32


def power_of_two(exponent: Tensor) -> Tensor:
    """2**exponent in fp32, exact, for exponents in [-126, 127]."""
    return ((exponent + 127) << 23).to(torch.int32).view(torch.float32)


def scale_exponent(amax: Tensor, q_max: float, floor: float) -> Tensor:
    """The UE8M0 exponent: ceil(log2(amax / q_max)) on the bits, so powers of two stay exact."""
    bits = (amax.clamp(min=floor) * (1.0 / q_max)).view(torch.int32)
    return ((bits - 1) >> 23) + 1 - 127


def to_e4m3(x: Tensor) -> Tensor:
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def to_e2m1(x: Tensor) -> Tensor:
    """Nearest E2M1 value, ties to the even code, saturating at 6."""
    a = x.abs().clamp(max=E2M1_MAX)
    r = torch.where(
        a < 2,
        torch.round(a * 2) * 0.5,
        torch.where(a < 4, torch.round(a), torch.round(a * 0.5) * 2),
    )
    return torch.where(x < 0, -r, r)


def fp8_groups(x: Tensor) -> tuple[Tensor, Tensor]:
    """1x32 groups along the last axis: (E4M3 codes, exponents)."""
    g = x.float().unflatten(-1, (-1, 32))
    e = scale_exponent(g.abs().amax(-1, keepdim=True), E4M3_MAX, 1e-4)
    return to_e4m3(g * power_of_two(-e)).flatten(-2), e.squeeze(-1)


def fake_fp8_groups(x: Tensor) -> Tensor:
    codes, e = fp8_groups(x)
    return (codes.float().unflatten(-1, (-1, 32)) * power_of_two(e).unsqueeze(-1)).flatten(-2)


def fp8_tiles(w: Tensor) -> tuple[Tensor, Tensor]:
    """32x32 tiles of the last two axes: (E4M3 codes, exponents)."""
    rows, columns = w.shape[-2:]
    t = w.float().unflatten(-1, (columns // TILE, TILE)).unflatten(-3, (rows // TILE, TILE))
    e = scale_exponent(t.abs().amax((-3, -1), keepdim=True), E4M3_MAX, 1e-4)
    codes = to_e4m3(t * power_of_two(-e)).flatten(-2).flatten(-3, -2)
    return codes, e.squeeze(-1).squeeze(-2)


def fake_fp8_tiles(w: Tensor) -> Tensor:
    codes, e = fp8_tiles(w)
    s = power_of_two(e).repeat_interleave(TILE, -1).repeat_interleave(TILE, -2)
    return codes.float() * s


def fp4_groups(x: Tensor) -> tuple[Tensor, Tensor]:
    """1x32 groups with a UE8M0 scale: (E2M1 values, exponents)."""
    g = x.float().unflatten(-1, (-1, 32))
    e = scale_exponent(g.abs().amax(-1, keepdim=True), E2M1_MAX, E2M1_MAX * 2.0**-126)
    return to_e2m1(g * power_of_two(-e)).flatten(-2), e.squeeze(-1)


def fake_fp4_groups(x: Tensor) -> Tensor:
    values, e = fp4_groups(x)
    return (values.unflatten(-1, (-1, 32)) * power_of_two(e).unsqueeze(-1)).flatten(-2)


def fake_fp4_e4m3(x: Tensor) -> Tensor:
    """Compressed KV: 1x16 groups of E2M1 with an E4M3 scale, multiplied by its reciprocal."""
    g = x.float().unflatten(-1, (-1, 16))
    amax = g.abs().amax(-1, keepdim=True).clamp(min=E2M1_MAX * 2.0**-9)
    s = to_e4m3((amax * (1.0 / E2M1_MAX)).clamp(max=E4M3_MAX)).float()
    return (to_e2m1(g * (1.0 / s)) * s).flatten(-2)


def pack_e2m1(values: Tensor) -> Tensor:
    """Two codes a byte, even element in the low nibble."""
    a = values.abs()
    code = torch.where(a < 2, a * 2, torch.where(a < 4, a + 2, a * 0.5 + 4)).to(torch.uint8)
    code = code | (torch.signbit(values).to(torch.uint8) << 3)
    return (code[..., 0::2] | (code[..., 1::2] << 4)).view(torch.int8)


def unpack_e2m1(packed: Tensor) -> Tensor:
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    b = packed.view(torch.uint8).to(torch.int64)
    return torch.stack((table[b & 15], table[b >> 4]), -1).flatten(-2)
