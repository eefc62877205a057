"""generate: results, formats, failures."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_command import Command

TEXTS = ["The quick brown fox", "One two three", "def main():"]


@pytest.fixture
def greedy(random_model: Path) -> list[str | Path]:
    return ["generate", "-m", random_model, "--temperature", "0", "-n", "12", "--seed", "1"]


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def prompts(texts: list[str]) -> list[str]:
    return [word for text in texts for word in ("-p", text)]


def test_one_prompt_prints_what_follows_it(deepinfer: Command, greedy: list[str | Path]) -> None:
    (result,) = objects(deepinfer(*greedy, "-p", TEXTS[0], "--json").out)
    output = result["outputs"][0]
    assert result["prompt"] == TEXTS[0]
    assert output["finish_reason"] == "length"
    assert len(output["token_ids"]) == 12
    assert deepinfer(*greedy, "-p", TEXTS[0]).out.rstrip("\n") == output["text"].rstrip("\n")
    echoed = deepinfer(*greedy, "-p", TEXTS[0], "--echo").out
    assert echoed.rstrip("\n") == (TEXTS[0] + output["text"]).rstrip("\n")


def test_ways_to_give_a_prompt(
    deepinfer: Command, greedy: list[str | Path], tmp_path: Path
) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text(TEXTS[0])
    expected = deepinfer(*greedy, "-p", TEXTS[0]).out
    assert deepinfer(*greedy, TEXTS[0]).out == expected
    assert deepinfer(*greedy, "-f", path).out == expected
    assert deepinfer(*greedy, stdin=TEXTS[0]).out == expected
    assert deepinfer(*greedy, "-f", "-", stdin=TEXTS[0]).out == expected
    # A trailing newline is part of the prompt.
    (with_newline,) = objects(deepinfer(*greedy, "--json", stdin=TEXTS[0] + "\n").out)
    assert with_newline["prompt"] == TEXTS[0] + "\n"
    (escaped,) = objects(deepinfer(*greedy, "--json", "--escape", "-p", r"a\n").out)
    assert escaped["prompt"] == "a\n"


def test_several_prompts_equal_each_alone_in_order(
    deepinfer: Command, greedy: list[str | Path]
) -> None:
    alone = [objects(deepinfer(*greedy, "-p", text, "--json").out)[0] for text in TEXTS]
    together = objects(deepinfer(*greedy, *prompts(TEXTS), "--json").out)
    assert [result["index"] for result in together] == [0, 1, 2]
    for one, other in zip(alone, together, strict=True):
        assert one["outputs"][0]["token_ids"] == other["outputs"][0]["token_ids"]
    narrow = objects(deepinfer(*greedy, *prompts(TEXTS), "--json", "--max-num-seqs", "1").out)
    assert narrow == together
    plain = deepinfer(*greedy, *prompts(TEXTS)).out
    positions = [plain.index(text) for text in TEXTS]
    assert positions == sorted(positions)


def test_streaming_prints_the_same(deepinfer: Command, greedy: list[str | Path]) -> None:
    plain = deepinfer(*greedy, *prompts(TEXTS), "--num-samples", "2").out
    streamed = deepinfer(*greedy, *prompts(TEXTS), "--num-samples", "2", "--stream").out
    assert streamed == plain


def test_devices_and_threads_agree(deepinfer: Command, greedy: list[str | Path]) -> None:
    expected = deepinfer(*greedy, *prompts(TEXTS), "--json").out
    assert deepinfer(*greedy, *prompts(TEXTS), "--json", "-t", "1").out == expected
    assert deepinfer(*greedy, *prompts(TEXTS), "--json", "--device", "reference").out == expected


def test_seeds_and_samples(deepinfer: Command, random_model: Path) -> None:
    words = ["generate", "-m", random_model, "-p", "a", "-n", "8", "--json", "--seed", "7"]
    (two,) = objects(deepinfer(*words, "--num-samples", "2").out)
    assert two == objects(deepinfer(*words, "--num-samples", "2").out)[0]
    assert [output["seed"] for output in two["outputs"]] == [7, 8]
    (one,) = objects(deepinfer(*words).out)
    assert one["outputs"][0] == two["outputs"][0]
    assert two["outputs"][0]["token_ids"] != two["outputs"][1]["token_ids"]


@pytest.mark.parametrize("seed", [2**63 - 1, 2**63, 2**64 - 1])
def test_any_printed_seed_can_be_given_back(
    deepinfer: Command, random_model: Path, seed: int
) -> None:
    words = ["generate", "-m", random_model, "-p", "a", "-n", "4", "--json", "--seed"]
    given = deepinfer(*words, str(seed)).out
    assert json.loads(given)["outputs"][0]["seed"] == seed
    assert deepinfer(*words, f"+{seed}").out == given


@pytest.mark.parametrize("seed", [str(2**64), str(-(2**63) - 1), "1.5", "x", "", "+-1"])
def test_seeds_beyond_64_bits_are_refused(
    deepinfer: Command, random_model: Path, seed: str
) -> None:
    result = deepinfer("generate", "-m", random_model, "-p", "a", f"--seed={seed}", code=2)
    assert "--seed" in result.err


def test_stop_text_must_be_utf8(deepinfer: Command, greedy: list[str | Path]) -> None:
    assert "--stop" in deepinfer(*greedy, "-p", "a", "--stop", b"\xff", code=2).err
    assert "--stop" in deepinfer("parse", "--stop", b"\xff", stdin="a", code=2).err


def test_stop_text_is_cut(deepinfer: Command, greedy: list[str | Path]) -> None:
    (result,) = objects(deepinfer(*greedy, "-p", TEXTS[0], "--json").out)
    text = result["outputs"][0]["text"]
    stop = text[len(text) // 2 :][:2]
    (stopped,) = objects(deepinfer(*greedy, "-p", TEXTS[0], "--json", "--stop", stop).out)
    output = stopped["outputs"][0]
    assert output["text"] == text[: text.index(stop)]
    assert (output["finish_reason"], output["stop_match"]) == ("stop", stop)


def test_logprobs(deepinfer: Command, greedy: list[str | Path]) -> None:
    (result,) = objects(deepinfer(*greedy, "-p", "a", "--json", "--logprobs", "3").out)
    output = result["outputs"][0]
    assert [entry["token_id"] for entry in output["logprobs"]] == output["token_ids"]
    assert all(len(entry["top"]) == 3 for entry in output["logprobs"])


def test_bad_prompts_fail_alone(
    deepinfer: Command, greedy: list[str | Path], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"ab\xff")
    long = tmp_path / "long.txt"
    long.write_text("word " * 3000)
    words = [*greedy, "-f", bad, "-f", long, "-p", TEXTS[1], "--json"]
    result = deepinfer(*words, code=4)
    good, invalid, too_long = objects(result.out)  # prompts come before files
    assert good["error"] is None
    assert invalid["outputs"] == []
    assert "UTF-8" in invalid["error"]["message"]
    assert too_long["error"]["finish_reason"] == "prompt_length_exceeded"
    assert "prompt 2 failed" in result.err
    assert "prompt 3 failed" in result.err
    (alone,) = objects(deepinfer(*greedy, "-p", TEXTS[1], "--json").out)
    assert alone == good
    assert deepinfer(*words, "--allow-failures").out == result.out
    plain = deepinfer(*greedy, "-f", bad, "--no-echo", code=4)
    assert plain.out == "\n"


def test_single_bad_prompt_is_four(deepinfer: Command, greedy: list[str | Path]) -> None:
    deepinfer(*greedy, "-p", b"\xff", code=4)
    deepinfer(*greedy, "-p", "word " * 3000, code=4)


def test_unwritable_output(deepinfer: Command, greedy: list[str | Path], tmp_path: Path) -> None:
    for words in (["--help"], [*greedy, "-p", "a"], ["env"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [deepinfer.path, *words],
                stdout=full,
                stderr=subprocess.PIPE,
                env=deepinfer.environment(),
                check=False,
            )
        assert done.returncode == 1
        assert b"standard output can't be written: No space left on device" in done.stderr
    result = deepinfer(*greedy, "-p", "a", "--stats-json", "/nowhere/stats.json", code=1)
    assert result.out == ""
    assert "/nowhere/stats.json" in result.err


@pytest.mark.parametrize("extra", [[], ["--stream"], ["--json"]])
def test_closed_pipe(deepinfer: Command, greedy: list[str | Path], extra: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [deepinfer.path, *greedy, *extra, "-q", "-p", "a"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=deepinfer.environment(),
        check=False,
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


def test_interrupt(deepinfer: Command, random_model: Path) -> None:
    words = ["generate", "-m", random_model, "-p", "a", "-n", "2000", "--ignore-eos", "--stream"]
    process = subprocess.Popen(
        [deepinfer.path, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=deepinfer.environment(),
    )
    assert process.stdout is not None
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - start < 10


def test_interrupt_ends_bench(deepinfer: Command, random_model: Path) -> None:
    sizes = ["--prompt-len", "48", "--output-len", "2000", "--repeat", "1000"]
    process = subprocess.Popen(
        [deepinfer.path, "bench", "-m", random_model, *sizes],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=deepinfer.environment(),
    )
    time.sleep(2)  # nothing tells that it runs
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == b""
    assert b"error" not in err


def test_stats(deepinfer: Command, greedy: list[str | Path], tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    deepinfer(*greedy, *prompts(TEXTS), "--ignore-eos", "--stats-json", path)
    stats = json.loads(path.read_text())
    assert (stats["requests"], stats["failed"], stats["generated_tokens"]) == (3, 0, 36)
    assert stats["numerics"] == "exact+cache"


def test_log_and_notice_go_to_stderr(deepinfer: Command, greedy: list[str | Path]) -> None:
    loud = deepinfer(*greedy, "-p", "a", "-v", "--progress", "on")
    quiet = deepinfer(*greedy, "-p", "a", "-q")
    assert loud.out == quiet.out
    assert "using the checkpoint in" in loud.err
    assert quiet.err == ""


def test_trained_checkpoint_writes_sentences(deepinfer: Command, trained_model: Path) -> None:
    words = ["generate", "-m", trained_model, "--temperature", "0", "-n", "40"]
    prompt = "The purpose of a file system is"
    text = deepinfer(*words, "-p", prompt, "--no-echo").out
    letters = sum(character.isalpha() or character == " " for character in text)
    assert letters / len(text) > 0.8
    found = text.lower().split()
    assert len(found) >= 8
    common = {"the", "a", "of", "to", "and", "is", "in", "that", "for", "it", "be", "can", "by"}
    assert sum(word in common for word in found) / len(found) > 0.25, text
    assert len(common.intersection(found)) >= 3, text
    # Untrained weights are near the logarithm of the vocabulary's size, 8 and more.
    sentence = f"{prompt} to store data so that programs can find it again."
    scored = json.loads(deepinfer("score", "-m", trained_model, "--json", "-p", sentence).out)
    logprobs = scored["token_logprobs"][1:]
    assert -sum(logprobs) / len(logprobs) < 5
