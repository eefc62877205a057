"""SamplingParams: defaults, ranges, names."""

from typing import Any

import numpy as np
import pytest

from deepinfer import SamplingParams
from deepinfer.sampling_params import SamplingParams as SamplingParamsByModule


def test_same_class_under_both_names() -> None:
    assert SamplingParams is SamplingParamsByModule


def test_defaults_of_the_official_package() -> None:
    params = SamplingParams()
    assert (params.temperature, params.top_p, params.top_k, params.max_tokens) == (1.0, 1.0, -1, 16)
    assert not params.ignore_eos
    assert params.seq_seed is None
    assert params.golden_token_ids is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_k", 0),
        ("top_k", -2),
        ("top_k", 2**31),
        ("max_tokens", -1),
        ("max_tokens", 2**31),
        ("top_logprobs", -1),
        ("top_logprobs", 1001),
        ("min_p", 1.1),
        ("repetition_penalty", 0.0),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -2.5),
        ("n", 0),
        ("min_tokens", -1),
        ("logprobs_mode", "none"),
        ("stop", ["x"] * 17),
        ("stop", [""]),
        ("stop", "\ud800"),
        ("bad_words", ["\ud800"]),
        ("logit_bias", {"x": 1}),
    ],
)
def test_value_out_of_range_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        SamplingParams(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq_seed", 1.5),
        ("seq_seed", "7"),
        ("max_tokens", 2.0),
        ("temperature", "1"),
        ("stop", [1]),
        ("stop_token_ids", ["a"]),
        ("logit_bias", [1]),
        ("logit_bias", {1.5: 1}),
        ("logit_bias", {1: "a"}),
    ],
)
def test_wrong_type_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match=field):
        SamplingParams(**{field: value})


def test_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"'temprature'.*'temperature'"):
        SamplingParams(temprature=1.0)  # type: ignore[call-arg]


def test_low_temperature_is_rewritten_to_greedy() -> None:
    params = SamplingParams(temperature=0, top_p=0.5, top_k=7)
    assert (params.temperature, params.top_p, params.top_k) == (1e-5, 1.0, -1)


def test_validation_comes_before_the_greedy_rewrite() -> None:
    with pytest.raises(ValueError, match="top_k"):
        SamplingParams(temperature=0, top_k=0)


def test_zero_max_tokens_counts_as_one() -> None:
    assert SamplingParams(max_tokens=0).max_tokens == 1


def test_seed_is_another_name_of_seq_seed() -> None:
    assert SamplingParams(seed=7).seq_seed == 7
    assert SamplingParams(seq_seed=7, seed=7).seq_seed == 7
    with pytest.raises(ValueError, match="seed"):
        SamplingParams(seq_seed=7, seed=8)


def test_seed_wraps_modulo_two_to_the_64() -> None:
    assert SamplingParams(seq_seed=-1).seq_seed == 2**64 - 1
    assert SamplingParams(seq_seed=2**64 + 3).seq_seed == 3


def test_numpy_numbers_are_accepted() -> None:
    params = SamplingParams(
        temperature=np.float32(0.5),
        max_tokens=np.int64(4),
        seq_seed=np.uint64(5),
        golden_token_ids=np.array([1, 2], dtype=np.int32),
    )
    assert (params.max_tokens, params.seq_seed) == (4, 5)
    assert params.golden_token_ids == [1, 2]


def test_so_args_are_checked() -> None:
    with pytest.raises(ValueError, match="serialized"):
        SamplingParams(so_args={"serialized": ""})
    with pytest.raises(KeyError, match="schema"):
        SamplingParams(so_args={"schema_type": "json"})
