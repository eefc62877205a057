"""How an engine is built."""

from __future__ import annotations

import dataclasses
import operator
import warnings
from dataclasses import dataclass
from typing import Any, Literal

from deepinfer import _core
from deepinfer.engine.engine_type import EngineType

_PARALLEL_SIZES = (
    "data_parallel_size",
    "context_parallel_size",
    "expert_parallel_size",
    "engram_parallel_size",
)
_ACCELERATOR_MAX_NUM_SEQS = 256
_CPU_MAX_NUM_SEQS = 64


@dataclass
class EngineArgs:
    """Every argument of an engine; names and meanings of the official package, then ours.

    Args:
        model: a folder, `tiny` (the bundled checkpoint) or `org/name[@revision]`. None:
            DEEPINFER_HF_MODEL_DIR, else the default checkpoint if it is complete in the Hugging
            Face cache, else `tiny`.
        tokenizer: a folder with `tokenizer.json`; None: the model's.
        load_format: only `auto` in this version.
        max_model_len: prompt and answer together. None: the smaller of 4096 and what the checkpoint
            allows; "auto": what the checkpoint allows, limited by memory.
        max_num_batched_tokens: rows of a step; None: max(2048, max_num_seqs).
        max_num_seqs: sequences that run at once; None: 64 on a CPU.
        chunked_prefill: whether a prompt may take several steps.
        tokens_per_block: of the cache; -1: 128.
        device: `cpu`, `reference`, `auto`; None: DEEPINFER_ACCELERATOR, else `cpu`.
        numerics: `exact`, `exact+cache`; None: DEEPINFER_NUMERICS, else `exact+cache`.
        num_threads: None: DEEPINFER_NUM_THREADS, else the physical cores.
        dtype: anything but bfloat16 is ignored with a warning.

    The arguments for several ranks must be neutral in this version; the others are accepted and
    have no effect on a CPU.
    """

    model: str | None = None
    served_model_name: str = "deepinfer-model"
    tokenizer: str | None = None
    trust_remote_code: bool = False
    load_format: str = "auto"
    seed: int = 0
    max_model_len: int | Literal["auto"] | None = None
    data_parallel_size: int = 0
    context_parallel_size: int = 1
    expert_parallel_size: int = 1
    engram_parallel_size: int = 0
    engine_rank: int = 0
    engine_group_rank: int = 0
    gpu_memory_utilization: float = 0.9
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    disable_log_stats: bool = False
    revision: str | None = None
    tokenizer_revision: str | None = None
    stop_preempted_request: bool = True
    engine_type: EngineType = EngineType.NORMAL
    chunked_prefill: bool = True
    ignore_len: int = 128 << 20
    tokens_per_block: int = -1
    lookahead_tokens: int = 0
    offline_inference: bool = False
    device: str | None = None
    numerics: str | None = None
    num_threads: int | None = None
    dtype: str = "bfloat16"

    def check(self) -> None:
        """Raises ValueError for a value that this version can't serve, naming it."""
        for name in ("model", "tokenizer", "revision", "tokenizer_revision"):
            if "\0" in str(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)!r}, which has a NUL in it")
        if not self.gpu_memory_utilization <= 1.0:  # NaN too
            raise ValueError(
                f"gpu_memory_utilization is {self.gpu_memory_utilization}, expected at most 1.0"
            )
        if str(self.load_format).lower() != "auto":
            raise ValueError(f"load_format is {self.load_format!r}, this version has only 'auto'")
        for name in _PARALLEL_SIZES:
            size = operator.index(getattr(self, name))
            if size > 1:
                raise ValueError(f"{name} is {size}, but this process is one rank alone")
        if self.engine_type != EngineType.NORMAL:
            raise ValueError(f"engine_type is {self.engine_type!r}, this version has only NORMAL")
        if str(self.dtype).removeprefix("torch.") not in ("bfloat16", "auto"):
            warnings.warn(
                f"dtype {self.dtype!r} is ignored: weights stay as the checkpoint stores them",
                stacklevel=4,
            )

    def to_options(self) -> _core.EngineOptions:
        """The engine's form of these arguments. Raises ValueError as check() does."""
        self.check()
        options = _core.EngineOptions()
        options.model = None if self.model is None else str(self.model)
        options.tokenizer = None if self.tokenizer is None else str(self.tokenizer)
        options.device = self.device
        options.numerics = self.numerics
        options.num_threads = _optional_integer("num_threads", self.num_threads)
        if self.max_model_len == "auto":
            options.auto_max_model_len = True
        else:
            options.max_model_len = _optional_integer("max_model_len", self.max_model_len) or 0
        on_accelerator = self.device in ("nvidia", "cuda", "ascend")
        default_seqs = _ACCELERATOR_MAX_NUM_SEQS if on_accelerator else _CPU_MAX_NUM_SEQS
        given_seqs = _optional_integer("max_num_seqs", self.max_num_seqs)
        options.max_num_seqs = default_seqs if given_seqs is None else given_seqs
        options.max_num_batched_tokens = (
            _optional_integer("max_num_batched_tokens", self.max_num_batched_tokens) or 0
        )
        options.chunked_prefill = bool(self.chunked_prefill)
        options.tokens_per_block = max(0, operator.index(self.tokens_per_block))
        return options

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in dataclasses.fields(cls)]


def _optional_integer(name: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not 0 < number < 2**31:
        raise ValueError(f"{name} is {number}, expected 1 to 2147483647")
    return number
