"""Writes a trained state as a checkpoint in the official format.

    python export.py STATE TINY_DIR

STATE holds the master weights in training layout (see train.py); without it (`-`) the weights
are the untrained initial ones. Draft layers, vision tower and aligner get small random values
from a fixed seed: they are present so that a loader sees the whole catalogue.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import torch
from model import EXPERT_PARTS, FP8_TILES, PLAIN, Config, Layer, Model
from quant import fp4_groups, fp8_groups, fp8_tiles, pack_e2m1
from torch import Tensor

KINDS = {
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.uint8: "F8_E8M0",
    torch.int8: "I8",
}
FLOAT32 = frozenset(("attn_sink", "gate_bias"))


def scale_bytes(exponents: Tensor) -> Tensor:
    return (exponents + 127).to(torch.uint8)


def fp8(out: dict[str, Tensor], name: str, weight: Tensor) -> None:
    codes, exponents = fp8_tiles(weight)
    out[name + ".weight"], out[name + ".scale"] = codes, scale_bytes(exponents)


def fp4(out: dict[str, Tensor], name: str, weight: Tensor) -> None:
    values, exponents = fp4_groups(weight)
    out[name + ".weight"], out[name + ".scale"] = pack_e2m1(values), scale_bytes(exponents)


def export_layer(out: dict[str, Tensor], prefix: str, layer: Layer) -> None:
    for name, suffix in PLAIN.items():
        if not hasattr(layer, name):
            continue
        value = getattr(layer, name).detach().float()
        if name == "engram_embed":
            codes, exponents = fp8_groups(value)
            out[prefix + suffix + ".weight"] = codes
            out[prefix + suffix + ".scale"] = scale_bytes(exponents)
        elif name in FP8_TILES:
            fp8(out, prefix + suffix, value)
        elif name in FLOAT32 or name.startswith("hc_"):
            out[prefix + suffix] = value
        else:
            out[prefix + suffix] = value.bfloat16()
    # A known offset, so that using the wrong bias shows in tests.
    bias = out[prefix + "ffn.gate.bias"]
    out[prefix + "ffn.gate.bias_vl"] = bias + torch.linspace(-0.1, 0.1, bias.shape[0])
    for part in EXPERT_PARTS:
        stacked = getattr(layer, part).detach().float()
        for e in range(stacked.shape[0] - 1):
            fp4(out, f"{prefix}ffn.experts.{e}.{part}", stacked[e])
        fp8(out, f"{prefix}ffn.shared_experts.{part}", stacked[-1])


def random_parts(out: dict[str, Tensor], config: Config, vision: dict[str, int]) -> None:
    """Draft layers, vision tower, aligner, image vectors."""
    generator = torch.Generator().manual_seed(41)
    extra, h = config.extra, config.hidden_size

    def normal(*shape: int, gain: float = 1.0) -> Tensor:
        return torch.randn(*shape, generator=generator) * gain / math.sqrt(shape[-1])

    def bf16(name: str, value: Tensor) -> None:
        out[name] = value.bfloat16()

    count = extra["num_nextn_predict_layers"]
    draft_config = Config(
        **{k: getattr(config, k) for k in Config.__dataclass_fields__}
        | {
            "n_routed_experts": extra["dspark_n_routed_experts"],
            "num_experts_per_tok": extra["dspark_num_experts_per_tok"],
            "engram_layer_ids": [],
        }
    )
    torch.manual_seed(41)
    for i in range(count):
        layer = Layer(draft_config, config.num_hidden_layers + i)
        with torch.no_grad():
            for name, value in layer.named_parameters():
                if name in ("hc_attn_fn", "hc_ffn_fn"):
                    value.normal_(std=value.shape[-1] ** -0.5)
        export_layer(out, f"mtp.{i}.", layer)
    targets = len(extra["dspark_target_layer_ids"])
    rank, vocab = extra["dspark_markov_rank"], config.vocab_size
    fp8(out, "mtp.0.main_proj", normal(h, h * targets))
    bf16("mtp.0.main_norm.weight", torch.ones(h))
    last = f"mtp.{count - 1}."
    bf16(last + "norm.weight", torch.ones(h))
    bf16(last + "markov_head.embed.weight", normal(vocab, rank))
    bf16(last + "markov_head.head.weight", normal(vocab, rank, gain=0.1))
    bf16(last + "confidence_head.proj.weight", normal(1, h + rank))

    v, patch, block = vision["hidden_size"], vision["patch_size"], vision["downsample_ratio"]
    inner = vision["intermediate_size"]
    bf16("vision.patch_embed.proj.weight", normal(v, 3 * patch * patch))
    bf16("vision.patch_embed.proj.bias", torch.zeros(v))
    for b in range(vision["num_hidden_layers"]):
        name = f"vision.blocks.{b}."
        bf16(name + "norm1.weight", torch.ones(v))
        bf16(name + "norm2.weight", torch.ones(v))
        bf16(name + "attn.wqkv.weight", normal(3 * v, v))
        bf16(name + "attn.wqkv.bias", torch.zeros(3 * v))
        bf16(name + "attn.wo.weight", normal(v, v))
        bf16(name + "attn.wo.bias", torch.zeros(v))
        bf16(name + "mlp.w1.weight", normal(2 * inner, v))
        bf16(name + "mlp.w2.weight", normal(v, inner))
    bf16("vision.norm.weight", torch.ones(v))
    bf16("aligner.w1.weight", normal(h, v * block * block))
    bf16("aligner.w1.bias", torch.zeros(h))
    bf16("aligner.w2.weight", normal(h, h))
    bf16("aligner.w2.bias", torch.zeros(h))
    for name in ("image_start", "image_newline", "image_end"):
        bf16(name, normal(h))


def write_safetensors(path: Path, tensors: dict[str, Tensor]) -> int:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name in sorted(tensors):
        t = tensors[name]
        size = t.numel() * t.element_size()
        header[name] = {
            "dtype": KINDS[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as sink:
        sink.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(tensors):
            t = tensors[name].contiguous()
            sink.write(t.flatten().view(torch.uint8).numpy().tobytes())
    return at


def export(model: Model, folder: Path) -> int:
    """Writes model.safetensors and its index into `folder`, which holds config.json."""
    out: dict[str, Tensor] = {
        "embed.weight": model.embed.detach().bfloat16(),
        "head.weight": model.head.detach().bfloat16(),
        "norm.weight": model.norm.detach().bfloat16(),
    }
    for layer in model.layers:
        export_layer(out, f"layers.{layer.index}.", layer)
    vision = json.loads((folder / "config.json").read_text())["vision_config"]
    random_parts(out, model.config, vision)
    out = {k: v.cpu() for k, v in out.items()}
    size = write_safetensors(folder / "model.safetensors", out)
    index = {
        "metadata": {"total_size": size},
        "weight_map": dict.fromkeys(sorted(out), "model.safetensors"),
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=0) + "\n")
    return size


def main() -> None:
    state, folder = sys.argv[1], Path(sys.argv[2])
    torch.manual_seed(0)
    model = Model(Config.load(folder / "config.json"), 16)
    if state != "-":
        tensors = torch.load(state, map_location="cpu", weights_only=True)
        missing = model.load_state_dict(tensors, strict=False)
        assert not missing.missing_keys, missing
        assert not missing.unexpected_keys, missing
    print(export(model, folder), "bytes of tensors")


if __name__ == "__main__":
    main()
