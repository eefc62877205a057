"""What a request may ask of sampling."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, SupportsFloat, SupportsIndex

from deepinfer import _core
from deepinfer._keywords import reject_unknown

_GREEDY_BELOW = 1e-5
_SO_ARGS_REFUSED = ("serialized", "bound_token_ids")

_Integer = SupportsIndex
_Number = SupportsFloat | SupportsIndex


def _integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None


def _number(name: str, value: Any) -> float:
    if isinstance(value, str):
        raise TypeError(f"{name} must be a number, not str")
    try:
        return float(value)
    except TypeError:
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from None


def _integers(name: str, values: Iterable[Any] | None) -> list[int]:
    return [] if values is None else [_integer(name, value) for value in values]


def _strings(name: str, values: str | Iterable[str] | None) -> list[str]:
    if values is None:
        return []
    strings = [values] if isinstance(values, str) else list(values)
    for value in strings:
        if not isinstance(value, str):
            raise TypeError(f"{name} must hold strings, not {type(value).__name__}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} has {value!r}, which has no UTF-8 form") from None
    return strings


def _logit_bias(biases: Any) -> dict[int, float]:
    if biases is None:
        return {}
    if not isinstance(biases, Mapping):
        raise TypeError(f"logit_bias must map token ids to numbers, but is {biases!r}")
    result = {}
    for token, bias in biases.items():
        try:
            number = int(token) if isinstance(token, str) else operator.index(token)
        except (TypeError, ValueError) as error:
            raise type(error)(f"logit_bias has the key {token!r}, expected a token id") from None
        result[number] = _number(f"logit_bias[{token!r}]", bias)
    return result


class SamplingParams:
    """Sampling values of a request; every one has a neutral default.

    Args:
        temperature: at least 0. Below 1e-5 decoding is greedy.
        top_p: in (0, 1].
        top_k: -1 (off), or 1 and more.
        ignore_eos: go on after the end of the text.
        max_tokens: the most tokens to generate; 0 counts as 1.
        logprobs: accepted and ignored, as in the official package; see `top_logprobs`.
        prompt_logprobs: report the log-probabilities of the prompt's tokens.
        top_logprobs: how many of the most likely tokens to report for each token, 0 to 1000.
        first_n_token_no_eos: 1 forbids the end of the text as the first token.
        eos_id: accepted and ignored: the tokenizer knows it.
        so_args: structured output; not in this version (generate() refuses it).
        golden_token_ids: the answer's tokens, forced; -1 leaves one free.
        seq_seed: None for 64 random bits, or an integer, taken modulo 2**64.
        seed: another name of `seq_seed`.
        stop: strings that end the text (at most 16); they are cut from it.
        stop_token_ids: ids that end the text, like the end of the text does.
        min_p, repetition_penalty, presence_penalty, frequency_penalty, logit_bias, min_tokens,
        bad_words, allowed_token_ids: as in vLLM.
        n: samples of each prompt, 1 to 128; sample i uses `seq_seed + i`.
        logprobs_mode: "processed" (what was drawn from) or "raw" (the unmodified softmax).

    Raises:
        ValueError: a value out of range, naming field and value.
        TypeError: a value of a wrong type, or an unknown keyword, naming the nearest known one.
    """

    def __init__(
        self,
        temperature: _Number = 1.0,
        top_p: _Number = 1.0,
        top_k: _Integer = -1,
        ignore_eos: bool = False,
        max_tokens: _Integer = 16,
        logprobs: Any = False,
        prompt_logprobs: Any = False,
        top_logprobs: _Integer = 0,
        first_n_token_no_eos: _Integer = 0,
        eos_id: _Integer = 0,
        so_args: Mapping[str, Any] | None = None,
        golden_token_ids: Iterable[_Integer] | None = None,
        seq_seed: _Integer | None = None,
        *,
        seed: _Integer | None = None,
        stop: str | Sequence[str] | None = None,
        stop_token_ids: Iterable[_Integer] | None = None,
        min_p: _Number = 0.0,
        repetition_penalty: _Number = 1.0,
        presence_penalty: _Number = 0.0,
        frequency_penalty: _Number = 0.0,
        logit_bias: Mapping[Any, _Number] | None = None,
        min_tokens: _Integer = 0,
        n: _Integer = 1,
        logprobs_mode: Literal["processed", "raw"] = "processed",
        bad_words: Sequence[str] | None = None,
        allowed_token_ids: Iterable[_Integer] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            reject_unknown("SamplingParams", unknown, [*vars(SamplingParams()), "seed"])
        self.temperature = _number("temperature", temperature)
        self.top_p = _number("top_p", top_p)
        self.top_k = _integer("top_k", top_k)
        self.ignore_eos = bool(ignore_eos)
        self.max_tokens = _integer("max_tokens", max_tokens) or 1
        self.logprobs = logprobs
        self.prompt_logprobs = bool(prompt_logprobs)
        self.top_logprobs = _integer("top_logprobs", top_logprobs)
        self.first_n_token_no_eos = _integer("first_n_token_no_eos", first_n_token_no_eos)
        self.eos_id = _integer("eos_id", eos_id)
        self.so_args = _checked_so_args(so_args)
        self.golden_token_ids = (
            None if golden_token_ids is None else _integers("golden_token_ids", golden_token_ids)
        )
        self.seq_seed = _seed(seq_seed, seed)
        self.stop = _strings("stop", stop)
        self.stop_token_ids = _integers("stop_token_ids", stop_token_ids)
        self.min_p = _number("min_p", min_p)
        self.repetition_penalty = _number("repetition_penalty", repetition_penalty)
        self.presence_penalty = _number("presence_penalty", presence_penalty)
        self.frequency_penalty = _number("frequency_penalty", frequency_penalty)
        self.logit_bias = _logit_bias(logit_bias)
        self.min_tokens = _integer("min_tokens", min_tokens)
        self.n = _integer("n", n)
        self.logprobs_mode = logprobs_mode
        self.bad_words = _strings("bad_words", bad_words)
        self.allowed_token_ids = (
            None if allowed_token_ids is None else _integers("allowed_token_ids", allowed_token_ids)
        )
        self._core()  # validates before the greedy rewrite, as the official package does
        if self.temperature < _GREEDY_BELOW:
            self.temperature, self.top_p, self.top_k = _GREEDY_BELOW, 1.0, -1

    @property
    def seed(self) -> int | None:
        """Another name of `seq_seed`."""
        return self.seq_seed

    @seed.setter
    def seed(self, value: _Integer | None) -> None:
        self.seq_seed = _seed(value, None)

    def _core(self) -> _core.SamplingParams:
        """The engine's form of the present values. Raises ValueError for one out of range."""
        params = _core.SamplingParams()
        # The greedy rewrite leaves exactly the threshold; the engine means below it.
        params.temperature = 0.0 if self.temperature == _GREEDY_BELOW else self.temperature
        for name in (
            "top_p",
            "ignore_eos",
            "prompt_logprobs",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "seq_seed",
        ):
            setattr(params, name, getattr(self, name))
        for name in ("stop", "bad_words"):
            setattr(params, name, _strings(name, getattr(self, name)))
        for name in ("top_k", "max_tokens", "top_logprobs", "first_n_token_no_eos", "min_tokens"):
            setattr(params, name, _in_32_bits(name, getattr(self, name)))
        params.n = _in_32_bits("n", self.n)
        for name in ("stop_token_ids", "allowed_token_ids", "golden_token_ids"):
            ids = getattr(self, name)
            if ids is not None:
                setattr(params, name, [_in_32_bits(name, token) for token in ids])
        params.logit_bias = [
            (_in_32_bits("logit_bias", token), bias) for token, bias in self.logit_bias.items()
        ]
        try:
            params.logprobs_mode = _core.LogprobsMode[self.logprobs_mode]
        except KeyError:
            raise ValueError(
                f"logprobs_mode is {self.logprobs_mode!r}, expected 'processed' or 'raw'"
            ) from None
        params.validate()
        return params

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"SamplingParams({fields})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SamplingParams) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # mutable


def _in_32_bits(name: str, value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"{name} is {value}, outside the 32-bit integers")
    return value


def _seed(seq_seed: Any, seed: Any) -> int | None:
    given = [_integer("seq_seed", value) % 2**64 for value in (seq_seed, seed) if value is not None]
    if len(set(given)) > 1:
        raise ValueError(f"seq_seed is {seq_seed} and its other name seed is {seed}: give one")
    return given[0] if given else None


def _checked_so_args(so_args: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if so_args is None:
        return None
    for name in _SO_ARGS_REFUSED:
        if name in so_args:
            raise ValueError(f"so_args has {name!r}, which isn't supported")
    if "schema" not in so_args:
        raise KeyError("schema")
    return dict(so_args)
