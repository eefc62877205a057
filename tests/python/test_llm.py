"""LLM: what comes back, what is refused, what stays usable."""

import math
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepinfer
from deepinfer import LLM, CheckpointError, RequestOutput, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
IDS = [[5, 6, 7, 8], [9, 10], [11, 12, 13]]


def test_module_paths_of_the_official_package() -> None:
    from deepinfer._C.engine import RequestOutput as Output
    from deepinfer.engine.arg_utils import EngineArgs
    from deepinfer.engine.engine_type import EngineType
    from deepinfer.entrypoints.llm import LLM as Engine  # noqa: N811

    assert Engine is LLM
    assert Output is RequestOutput
    assert [kind.value for kind in EngineType] == [0, 1, 2]
    assert EngineArgs().max_model_len is None
    assert deepinfer.__version__.count(".") == 2


def test_one_text_for_each_prompt_in_order(llm: LLM) -> None:
    together = llm.generate(prompt_token_ids=IDS, sampling_params=GREEDY, use_tqdm=False)
    assert len(together) == 3
    alone = [llm.generate(None, GREEDY, [ids], use_tqdm=False)[0] for ids in IDS]
    assert together == alone


def test_one_string_is_one_prompt(llm: LLM) -> None:
    assert llm.generate("hello", GREEDY, use_tqdm=False) == llm.generate(
        ["hello"], GREEDY, use_tqdm=False
    )


def test_numpy_ids_and_one_flat_list(llm: LLM) -> None:
    array = np.array(IDS[0], dtype=np.int32)
    expected = llm.generate(None, GREEDY, [IDS[0]], use_tqdm=False)
    assert llm.generate(None, GREEDY, [array], use_tqdm=False) == expected
    assert llm.generate(None, GREEDY, IDS[0], use_tqdm=False) == expected


def test_request_outputs_one_a_token(golden: Path) -> None:
    params = SamplingParams(temperature=0, max_tokens=5, ignore_eos=True, top_logprobs=2)
    with LLM(golden / "tiny-random", decode_sequence=False) as llm:
        (outputs,) = llm.generate(None, params, [IDS[0]], use_tqdm=False)
    assert [output.num_output_tokens for output in outputs] == [1, 2, 3, 4, 5]
    assert [output.finished for output in outputs] == [False] * 4 + [True]
    last = outputs[-1]
    assert (last.finish_reason, last.prompt_len) == ("length", 4)
    assert len(last.top_token_ids) == 2
    assert last.top_logprobs[0] >= last.top_logprobs[1]
    assert last.nextn_logprobs == 1.0
    assert last.sum_smaller_probs == -1.0


def test_samples_are_flattened_in_order(llm: LLM) -> None:
    params = SamplingParams(max_tokens=6, n=3, seq_seed=11, ignore_eos=True)
    texts = llm.generate(None, params, IDS[:2], use_tqdm=False)
    assert len(texts) == 6
    one = SamplingParams(max_tokens=6, seq_seed=12, ignore_eos=True)
    assert llm.generate(None, one, [IDS[1]], use_tqdm=False)[0] == texts[4]


def test_seed_repeats_a_run(llm: LLM) -> None:
    params = SamplingParams(max_tokens=12, seed=3, ignore_eos=True)
    assert llm.generate(None, params, IDS, use_tqdm=False) == llm.generate(
        None, params, IDS, use_tqdm=False
    )


def test_params_one_for_each_prompt(llm: LLM) -> None:
    params = [SamplingParams(max_tokens=count, ignore_eos=True) for count in (1, 2, 3)]
    counts = [0, 0, 0]
    for index, _ in llm.generate_iter(None, params, IDS):
        counts[index] += 1
    assert counts == [1, 2, 3]


def test_golden_token_ids_force_the_answer(llm: LLM) -> None:
    forced = SamplingParams(max_tokens=3, golden_token_ids=[20, 21, 22], ignore_eos=True)
    ids = [output.token_id for _, output in llm.generate_iter(None, forced, [IDS[0]])]
    assert ids == [20, 21, 22]


def test_finished_text_ends_with_eos_unless_skipped(llm: LLM) -> None:
    tokenizer = llm.get_tokenizer()
    eos = tokenizer.eos_token_id
    forced = SamplingParams(max_tokens=9, golden_token_ids=[20, 21, eos])
    (kept,) = llm.generate(None, forced, [IDS[0]], use_tqdm=False)
    (skipped,) = llm.generate(None, forced, [IDS[0]], use_tqdm=False, skip_special_tokens=True)
    assert kept == tokenizer.decode([20, 21, eos])
    assert skipped == tokenizer.decode([20, 21])
    assert kept != skipped


def test_bad_prompts_leave_the_others_alone(golden: Path) -> None:
    with LLM(golden / "tiny-random", decode_sequence=False, max_model_len=32) as llm:
        prompts = [IDS[0], [5, 100000], list(range(5, 60)), IDS[1], [-1], [2**40]]
        results = llm.generate(None, GREEDY, prompts, use_tqdm=False)
        reasons = [result[-1].finish_reason for result in results]
        alone = llm.generate(None, GREEDY, [IDS[0], IDS[1]], use_tqdm=False)
    assert reasons == [
        "length",
        "invalid_token",
        "prompt_length_exceeded",
        "length",
        "invalid_token",
        "invalid_token",
    ]
    good = [[output.token_id for output in results[index]] for index in (0, 3)]
    assert good == [[output.token_id for output in result] for result in alone]


def test_bad_prompts_have_empty_text(llm: LLM) -> None:
    texts = llm.generate(None, GREEDY, [[5, 100000], IDS[0]], use_tqdm=False)
    assert texts[0] == ""
    assert texts[1] != ""


def test_text_that_is_no_utf8_fails_alone(llm: LLM) -> None:
    bad, good = llm.generate(["\ud800", "hello"], GREEDY, use_tqdm=False)
    assert bad == ""
    assert good == llm.generate("hello", GREEDY, use_tqdm=False)[0]


def test_strict_raises_before_anything_runs(llm: LLM) -> None:
    with pytest.raises(ValueError, match="100000"):
        llm.generate(None, GREEDY, [IDS[0], [5, 100000]], use_tqdm=False, strict=True)


def test_errors_of_the_whole_call(llm: LLM) -> None:
    with pytest.raises(ValueError, match="prompt"):
        llm.generate()
    with pytest.raises(ValueError, match="no prompt"):
        llm.generate([])
    with pytest.raises(ValueError, match="2 prompts"):
        llm.generate(["a", "b"], GREEDY, [[1]])
    with pytest.raises(ValueError, match="3 prompts"):
        llm.generate(None, [GREEDY], IDS)
    with pytest.raises(TypeError, match="SamplingParams"):
        llm.generate("a", [1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="string"):
        llm.generate([5.0])  # type: ignore[list-item]
    with pytest.raises(NotImplementedError, match="so_args"):
        llm.generate("a", SamplingParams(so_args={"schema_type": "json", "schema": "{}"}))
    with pytest.raises(NotImplementedError, match="multi_modal_data"):
        llm.generate("a", GREEDY, multi_modal_data={"image_bytes": [b""]})


@pytest.mark.parametrize("bad", [b"ab", bytearray(b"ab"), memoryview(b"ab"), {5: 6}])
def test_bytes_and_mappings_are_no_prompts(llm: LLM, bad: Any) -> None:
    for call in (llm.generate, llm.generate_iter, llm.score):
        with pytest.raises(TypeError, match=r"^prompts must be"):
            call(bad)
        with pytest.raises(TypeError, match=r"^prompts\[1\] must be"):
            call(["a", bad])
        with pytest.raises(TypeError, match=r"^prompt_token_ids must be"):
            call(prompt_token_ids=bad)
        with pytest.raises(TypeError, match=r"^prompt_token_ids\[1\] must be"):
            call(prompt_token_ids=[[5], bad])


def test_token_ids_are_no_strings(llm: LLM) -> None:
    with pytest.raises(TypeError, match=r"^prompt_token_ids must be .* not str"):
        llm.generate(prompt_token_ids="ab")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^prompt_token_ids\[0\] must be .* not str"):
        llm.generate(prompt_token_ids=["ab"])  # type: ignore[list-item]


@pytest.mark.parametrize("bad", ["hello", b"hello", {"role": "user", "content": "a"}])
def test_text_or_one_message_is_no_conversation(llm: LLM, bad: Any) -> None:
    with pytest.raises(TypeError, match=r"^messages must be"):
        llm.chat(bad)
    with pytest.raises(TypeError, match=r"^messages\[1\] must be"):
        llm.chat([[{"role": "user", "content": "a"}], bad])


def test_progress_ticks_once_a_request(llm: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    llm.generate(None, GREEDY, IDS)
    captured = capsys.readouterr()
    assert "Processed prompts" in captured.err
    assert "3/3" in captured.err
    assert captured.out == ""


def test_generate_iter_gives_the_tokens_of_generate(llm: LLM) -> None:
    ids: list[list[int]] = [[], [], []]
    for index, output in llm.generate_iter(None, GREEDY, IDS):
        ids[index].append(output.token_id)
    tokenizer = llm.get_tokenizer()
    texts = llm.generate(None, GREEDY, IDS, use_tqdm=False)
    assert [tokenizer.decode(one) for one in ids] == texts


def test_closing_the_iterator_aborts(llm: LLM) -> None:
    long = SamplingParams(temperature=0, max_tokens=2000, ignore_eos=True)
    iterator = llm.generate_iter(None, long, IDS)
    next(iterator)
    started = time.monotonic()
    iterator.close()
    assert time.monotonic() - started < 10
    assert len(llm.generate(None, GREEDY, IDS, use_tqdm=False)) == 3


def test_iterator_raises_what_the_engine_raises(llm: LLM) -> None:
    with pytest.raises(ValueError, match="100000"):
        list(llm.generate_iter(None, GREEDY, [[100000]], strict=True))


def test_interrupt_leaves_the_engine_usable(llm: LLM) -> None:
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    before = llm.generate(None, GREEDY, IDS, use_tqdm=False)
    long = SamplingParams(temperature=0, max_tokens=3500, ignore_eos=True)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        llm.generate(None, long, IDS * 8, use_tqdm=False)
    timer.join()
    assert llm.generate(None, GREEDY, IDS, use_tqdm=False) == before


EXIT_SCRIPT = """
import sys, threading, time
from deepinfer import LLM, SamplingParams

llm = LLM(sys.argv[1], num_threads=2)
params = SamplingParams(max_tokens=3000, ignore_eos=True)

def call():
    while True:
        llm.generate(["a"] * 4, params, use_tqdm=False)

def chat():
    llm.chat([[{"role": "user", "content": "a"}]] * 4, params)

def score():
    llm.score(prompt_token_ids=[[5] * 1000] * 4)

match sys.argv[2]:
    case "iterator":
        stream = llm.generate_iter(["a"] * 4, params)
        next(stream)
    case "chat stream":
        stream = llm.chat([{"role": "user", "content": "a"}], params, stream=True)
        next(stream)
    case name:
        target = {"daemon": call, "daemon chat": chat, "daemon score": score}[name]
        threading.Thread(target=target, daemon=True).start()
        time.sleep(0.2)
sys.exit(int(sys.argv[3]))
"""


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize(
    "case", ["iterator", "chat stream", "daemon", "daemon chat", "daemon score"]
)
def test_exit_of_the_interpreter_ends_running_calls(case: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXIT_SCRIPT, "tiny", case, str(status)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr


def test_calls_of_several_threads_are_queued(llm: LLM) -> None:
    expected = llm.generate(None, GREEDY, IDS, use_tqdm=False)
    results: list[list[str]] = []

    def call() -> None:
        results.append(llm.generate(None, GREEDY, IDS, use_tqdm=False))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_score_is_a_log_softmax(llm: LLM) -> None:
    (result,) = llm.score(prompt_token_ids=[IDS[0]], top_logprobs=512)
    assert result.token_ids == IDS[0]
    assert result.token_logprobs[0] is None
    for position, top in enumerate(result.top_logprobs[1:], start=1):
        assert math.isclose(sum(math.exp(value) for _, value in top), 1.0, rel_tol=1e-3)
        assert math.isclose(
            dict(top)[IDS[0][position]], result.token_logprobs[position] or 0.0, abs_tol=1e-5
        )
    assert math.isclose(result.total_logprob, sum(x for x in result.token_logprobs if x))


def test_prompt_logprobs_equal_score(golden: Path) -> None:
    params = SamplingParams(max_tokens=2, prompt_logprobs=True, ignore_eos=True)
    with LLM(golden / "tiny-random", decode_sequence=False) as llm:
        (outputs,) = llm.generate(None, params, [IDS[0]], use_tqdm=False)
        (scored,) = llm.score(prompt_token_ids=[IDS[0]])
    assert outputs[0].prompt_logprobs == pytest.approx(scored.token_logprobs[1:], abs=1e-5)
    assert outputs[1].prompt_logprobs == []


def test_closed_engine_says_so(golden: Path) -> None:
    llm = LLM(golden / "tiny-random")
    llm.close()
    llm.close()
    with pytest.raises(ValueError, match="closed"):
        llm.generate("a")


def test_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"'max_model_length'.*'max_model_len'"):
        LLM("tiny", max_model_length=5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpu_memory_utilization", 1.5),
        ("gpu_memory_utilization", math.nan),
        ("tokenizer", "a\0b"),
        ("revision", "a\0b"),
        ("expert_parallel_size", 2),
        ("context_parallel_size", 2),
        ("load_format", "gguf"),
        ("max_model_len", 10**6),
        ("max_model_len", 0),
        ("max_num_seqs", -1),
        ("device", "abacus"),
        ("numerics", "vague"),
    ],
)
def test_argument_out_of_range_names_it(golden: Path, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        LLM(golden / "tiny-random", **{name: value})  # type: ignore[arg-type]


def test_model_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model is 'a\\x00b'"):
        LLM("a\0b")


def test_device_that_the_build_lacks(golden: Path) -> None:
    with pytest.raises(NotImplementedError, match="nvidia"):
        LLM(golden / "tiny-random", device="nvidia")


def test_every_official_argument_is_accepted(golden: Path) -> None:
    with LLM(
        str(golden / "tiny-random"),
        tokenizer=str(golden / "tiny-random"),
        trust_remote_code=True,
        seed=1,
        gpu_memory_utilization=0.5,
        max_num_seqs=np.int64(4),
        max_num_batched_tokens=64,
        max_model_len=128,
        chunked_prefill=True,
        disable_log_stats=True,
        tokens_per_block=-1,
    ) as llm:
        assert llm.info.max_model_len == 128
        assert llm.info.max_num_seqs == 4


def test_dtype_other_than_bfloat16_warns(golden: Path) -> None:
    with pytest.warns(UserWarning, match="float16"):
        LLM(golden / "tiny-random", dtype="float16").close()


def test_missing_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        LLM(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        LLM(tmp_path)


def test_corrupt_checkpoint(tmp_path: Path, golden: Path) -> None:
    for file in (golden / "tiny-random").iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    data = (golden / "tiny-random" / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"model\.safetensors") as caught:
        LLM(tmp_path)
    assert isinstance(caught.value, CheckpointError)


# --- the bundled checkpoint ----------------------------------------------------------------------


def test_bundled_checkpoint_completes_and_answers(tiny: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=24)
    (text,) = tiny.generate("The main purpose of a file system is", params, use_tqdm=False)
    assert len(text.split()) > 5
    (answer,) = tiny.chat([{"role": "user", "content": "What is 17 + 25?"}], params, thinking=False)
    assert answer.error == ""
    assert "42" in answer.content
    assert answer.usage.completion_tokens == len(answer.token_ids)


def test_stop_string_is_cut(tiny: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=48, ignore_eos=True)
    (text,) = tiny.generate("A regular expression is", params, use_tqdm=False)
    stop = text[len(text) // 2 :][:3]
    params = SamplingParams(temperature=0, max_tokens=48, ignore_eos=True, stop=stop)
    (cut,) = tiny.generate("A regular expression is", params, use_tqdm=False)
    assert cut == text[: text.index(stop)]


def test_streamed_chat_equals_the_whole_answer(tiny: LLM) -> None:
    conversation = [{"role": "user", "content": "What is 17 + 25?"}]
    params = SamplingParams(temperature=0, max_tokens=200)
    (whole,) = tiny.chat(conversation, params)
    content = reasoning = ""
    final = None
    for delta in tiny.chat(conversation, params, stream=True):
        if delta.kind == "content":
            content += delta.text
        elif delta.kind == "reasoning":
            reasoning += delta.text
        elif delta.kind == "finished":
            final = delta.result
    assert (content, reasoning) == (whole.content, whole.reasoning_content)
    assert final == whole


def test_bad_conversation_fails_alone(tiny: LLM) -> None:
    good = [{"role": "user", "content": "What is 2 + 2?"}]
    bad = [{"role": "nobody", "content": ""}]
    params = SamplingParams(temperature=0, max_tokens=16)
    failed, answered = tiny.chat([bad, good], params, thinking=False)
    assert "nobody" in failed.error
    assert failed.content == ""
    assert answered.error == ""
    with pytest.raises(ValueError, match="nobody"):
        tiny.chat(bad, params, strict=True)


def test_no_model_named_uses_the_bundled_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DEEPINFER_HF_MODEL_DIR", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with LLM() as llm:
        assert Path(llm.info.model_path).name == "tiny"


def test_model_variable_names_the_default(monkeypatch: pytest.MonkeyPatch, golden: Path) -> None:
    monkeypatch.setenv("DEEPINFER_HF_MODEL_DIR", str(golden / "tiny-random"))
    with LLM() as llm:
        assert Path(llm.info.model_path).name == "tiny-random"
