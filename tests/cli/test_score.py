"""score against the golden log-probabilities."""

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_command import Command

LONGEST = 2048  # max_position_embeddings of the golden checkpoint


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    kinds = {"F32": np.float32, "I64": np.int64, "I32": np.int32}
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and entry["dtype"] in kinds:
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            flat = np.frombuffer(data[begin:end], kinds[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("numerics", "folder", "tolerance"),
    [("exact", "exact", 1e-4), ("exact+cache", "exact-cache", 1e-4)],
)
@pytest.mark.parametrize("length", [7, 63])
def test_golden_logprobs(
    deepinfer: Command,
    golden: Path,
    random_model: Path,
    tmp_path: Path,
    numerics: str,
    folder: str,
    tolerance: float,
    length: int,
) -> None:
    expected = read_tensors(golden / "tiny-random-expected" / f"{folder}-len{length}.safetensors")
    ids = expected["input_ids"].tolist()
    logits = expected["logits"].astype(np.float64)
    logprobs = logits - expected["logsumexp"][:, None]
    path = tmp_path / "ids.json"
    path.write_text(json.dumps(ids))
    words = ["score", "-m", random_model, "--ids", path, "--numerics", numerics]
    (result,) = objects(deepinfer(*words, "--top-logprobs", "3", "--json").out)
    assert result["token_ids"] == ids
    assert result["token_logprobs"][0] is None
    assert result["top_logprobs"][0] is None
    for position in range(1, length):
        row = logprobs[position - 1]
        assert abs(result["token_logprobs"][position] - row[ids[position]]) < tolerance
        best = result["top_logprobs"][position]
        assert len(best) == 3
        assert best == sorted(best, key=lambda entry: -entry[1])
        for token, logprob in best:
            assert abs(logprob - row[token]) < tolerance
        assert abs(best[0][1] - row.max()) < tolerance
    summary = deepinfer(*words).out
    total = sum(result["token_logprobs"][1:])
    assert f"tokens {length}  logprob {total:.4f}" in summary
    assert f"perplexity {math.exp(-total / (length - 1)):.4f}"[:18] in summary


def test_devices_agree(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "ids.json"
    path.write_text(json.dumps(list(range(3, 60))))
    words = ["score", "-m", random_model, "--ids", path, "--json", "--top-logprobs", "2"]
    assert deepinfer(*words).out == deepinfer(*words, "--device", "reference").out
    assert deepinfer(*words).out == deepinfer(*words, "-t", "1").out


def test_ids_one_array_a_line(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "ids.jsonl"
    path.write_text("[5, 6, 7]\n\n[8, 9]\n")
    results = objects(deepinfer("score", "-m", random_model, "--ids", path, "--json").out)
    assert [result["token_ids"] for result in results] == [[5, 6, 7], [8, 9]]
    path.write_text("[[5, 6, 7], [8, 9]]")
    again = objects(deepinfer("score", "-m", random_model, "--ids", path, "--json").out)
    assert again == results
    piped = deepinfer("score", "-m", random_model, "--ids", "-", "--json", stdin="[5, 6, 7]")
    assert objects(piped.out) == results[:1]


def test_bad_sequences_fail_alone(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    sequences = [[5, 6, 7], [5, 512], [5, -1], [5] * (LONGEST + 1), [8, 9]]
    path = tmp_path / "ids.json"
    path.write_text(json.dumps(sequences))
    words = ["score", "-m", random_model, "--ids", path, "--json"]
    results = objects(deepinfer(*words, code=4).out)
    assert [result["index"] for result in results] == [0, 1, 2, 3, 4]
    assert [result["error"] is None for result in results] == [True, False, False, False, True]
    assert results[1]["error"]["finish_reason"] == "invalid_token"
    assert "512" in results[1]["error"]["message"]
    assert results[3]["error"]["finish_reason"] == "prompt_length_exceeded"
    path.write_text(json.dumps([sequences[0], sequences[4]]))
    good = objects(deepinfer(*words).out)
    assert [result["token_logprobs"] for result in good] == [
        results[0]["token_logprobs"],
        results[4]["token_logprobs"],
    ]
    path.write_text(json.dumps(sequences))
    assert len(objects(deepinfer(*words, "--allow-failures").out)) == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1.5]",
        '["a"]',
        "[[1], 2]",
        "[1]\n{}\n",
        "[3000000000]",
        f"[{2**64 - 1}]",
        "[-3000000000]",
    ],
)
def test_files_that_hold_no_ids(
    deepinfer: Command, random_model: Path, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "ids.json"
    path.write_text(text)
    result = deepinfer("score", "-m", random_model, "--ids", path, code=2)
    assert result.out == ""
    assert str(path) in result.err


def test_texts(deepinfer: Command, random_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("The quick brown fox.\n")
    from_file = deepinfer("score", "-m", random_model, path, "--json").out
    assert deepinfer("score", "-m", random_model, "-f", path, "--json").out == from_file
    piped = deepinfer("score", "-m", random_model, "--json", stdin="The quick brown fox.\n").out
    assert piped == from_file
    (with_bos,) = objects(from_file)
    (without,) = objects(deepinfer("score", "-m", random_model, path, "--json", "--no-bos").out)
    assert with_bos["token_ids"] == [0, *without["token_ids"]]
