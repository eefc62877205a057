"""Tokenizer against the reference library `tokenizers`."""

import json
import random
import unicodedata
from pathlib import Path

import pytest
import tokenizers

from deepinfer import CheckpointError, Tokenizer


@pytest.fixture(scope="module")
def folder(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The official tokenizer's files as a checkpoint has them."""
    import gzip

    packed = golden / "tokenizer"
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "tokenizer.json").write_bytes(
        gzip.decompress((packed / "tokenizer.json.gz").read_bytes())
    )
    (folder / "tokenizer_config.json").write_bytes((packed / "tokenizer_config.json").read_bytes())
    return folder


@pytest.fixture(scope="module")
def ours(folder: Path) -> Tokenizer:
    return Tokenizer(folder)


@pytest.fixture(scope="module")
def reference(folder: Path) -> tokenizers.Tokenizer:
    assert tokenizers.__version__ == "0.23.3", "the reference version is pinned"
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def test_golden_pairs(ours: Tokenizer, golden: Path) -> None:
    pairs = json.loads((golden / "tokenizer" / "pairs.json").read_text(encoding="utf-8"))
    cases = pairs["cases"] if isinstance(pairs, dict) else pairs
    assert len(cases) == 92
    for case in cases:
        assert ours.encode(case["text"]) == case["ids"]
        assert ours.decode(case["ids"]) == case["decoded"]
        assert ours.decode(case["ids"], skip_special_tokens=True) == case["decoded_skip_special"]


def _assigned() -> list[str]:
    """Characters that a text may hold: assigned ones, no surrogates."""
    return [
        chr(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")
    ]


def _random_text(source: random.Random, assigned: list[str], specials: list[str]) -> str:
    words = [
        "the",
        "File",
        "don't",
        "  ",
        "\n\n",
        "\t",
        "12345",
        "你好",
        "かな",
        "é",
        "e\u0301",
        "😀",
        "\r\n",
    ]
    parts = []
    for _ in range(source.randrange(1, 24)):
        kind = source.random()
        if kind < 0.5:
            parts.append(source.choice(words) + source.choice(["", " ", ", ", "."]))
        elif kind < 0.75:
            parts.append(
                "".join(chr(source.randrange(32, 127)) for _ in range(source.randrange(9)))
            )
        elif kind < 0.95:
            parts.append("".join(source.choice(assigned) for _ in range(source.randrange(6))))
        else:
            parts.append(source.choice(specials))
    return "".join(parts)


def test_random_texts_equal_the_reference(ours: Tokenizer, reference: tokenizers.Tokenizer) -> None:
    source = random.Random(20261017)
    assigned = _assigned()
    specials = sorted(token.content for token in reference.get_added_tokens_decoder().values())
    for _ in range(4000):
        text = _random_text(source, assigned, specials)
        ids = reference.encode(text, add_special_tokens=False).ids
        assert ours.encode(text) == ids, text
        for skip in (False, True):
            assert ours.decode(ids, skip) == reference.decode(ids, skip_special_tokens=skip), text


def test_random_ids_decode_as_the_reference(
    ours: Tokenizer, reference: tokenizers.Tokenizer
) -> None:
    source = random.Random(7)
    for _ in range(2000):
        ids = [source.randrange(reference.get_vocab_size()) for _ in range(source.randrange(1, 16))]
        assert ours.decode(ids) == reference.decode(ids, skip_special_tokens=False)


def test_vocabulary_equals_the_reference(ours: Tokenizer, reference: tokenizers.Tokenizer) -> None:
    assert len(ours) == reference.get_vocab_size() == 129280
    for token in ("<｜User｜>", "<think>", "Ġthe", "no such token, surely"):
        assert ours.token_to_id(token) == reference.token_to_id(token)
    for token_id in (0, 1, 2, 100, 128803, 129279):
        assert ours.id_to_token(token_id) == reference.id_to_token(token_id)


def test_bos_is_explicit_and_never_doubled(ours: Tokenizer) -> None:
    plain = ours.encode("hello")
    assert ours.encode("hello", add_bos=True) == [0, *plain]
    assert ours.encode("hello", add_bos=None) == [0, *plain]
    assert ours.encode("<｜begin▁of▁sentence｜>hello", add_bos=True) == [0, *plain]


def test_special_spellings_can_stay_plain(ours: Tokenizer) -> None:
    assert ours.encode("<｜User｜>") == [128803]
    assert 128803 not in ours.encode("<｜User｜>", parse_special=False)


def test_bad_input_is_a_clear_error(ours: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        ours.encode("\ud800")
    with pytest.raises(ValueError, match="200000"):
        ours.decode([200000])
    with pytest.raises(FileNotFoundError):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer(tmp_path)
