"""Text in, text out."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from tqdm import tqdm

from deepinfer import _core, hub
from deepinfer._core import RequestOutput
from deepinfer._exit import Call
from deepinfer._keywords import reject_unknown
from deepinfer.chat import ChatDelta, ChatResult, Effort, Message, request_json
from deepinfer.engine.arg_utils import EngineArgs
from deepinfer.sampling_params import SamplingParams
from deepinfer.tokenizer import Tokenizer

Conversation = Sequence[Message]
Params = SamplingParams | Sequence[SamplingParams] | None
TokenIds = Sequence[int] | Iterable[int]
_Item = TypeVar("_Item")
_NO_IDS = (bytes, bytearray, memoryview, Mapping)  # iterables of integers or keys, meant otherwise
_DELTA_KINDS = ("reasoning", "content", "tool_call")


@dataclass(frozen=True)
class ScoreResult:
    """Log-probabilities of a given text, by the unmodified softmax.

    `token_logprobs` has one entry a token, None for the first: nothing predicts it. `top_logprobs`
    has a list of (id, log-probability) for each token. `error` says why a prompt failed.
    """

    token_ids: list[int]
    token_logprobs: list[float | None]
    top_logprobs: list[list[tuple[int, float]]]
    error: str = ""

    @property
    def total_logprob(self) -> float:
        return sum(value for value in self.token_logprobs if value is not None)


class LLM:
    """An engine with its checkpoint and tokenizer.

    Calls from several threads are queued. Ctrl-C ends a running call within one step and leaves the
    engine usable. Usable as a context manager.

    Args:
        model: a folder, `tiny` (the bundled checkpoint), or `org/name[@revision]`, which is
            downloaded if it isn't in the Hugging Face cache. None: DEEPINFER_HF_MODEL_DIR, else the
            default checkpoint if the cache has it, else `tiny`; nothing is downloaded then.
        tokenizer: a folder with `tokenizer.json`; None: the model's.
        decode_sequence: whether generate() returns strings, or lists of RequestOutput.
        device: `cpu`, `reference` or `auto`; None: DEEPINFER_ACCELERATOR, else `cpu`.
        num_threads, numerics, max_model_len, ...: see EngineArgs.
        seed: stored; see SamplingParams.seq_seed.

    Raises:
        CheckpointError: (a FileNotFoundError and a ValueError) a checkpoint that is missing,
            incomplete, corrupt or unsupported.
        ValueError: an argument or DEEPINFER_* variable out of range.
        TypeError: an unknown keyword, naming the nearest known one.
        NotImplementedError: a device that this build lacks.
        MemoryError: the limits don't suffice.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        tokenizer: str | os.PathLike[str] | None = None,
        trust_remote_code: bool = False,
        expert_parallel_size: int = 1,
        revision: str | None = None,
        tokenizer_revision: str | None = None,
        seed: int = 0,
        gpu_memory_utilization: float = 0.9,
        decode_sequence: bool = True,
        **kwargs: Any,
    ) -> None:
        known = EngineArgs.names()
        unknown = [name for name in kwargs if name not in known]
        reject_unknown("LLM", unknown, [*known, "decode_sequence"])
        kwargs.setdefault("stop_preempted_request", False)
        self.engine_args = EngineArgs(
            model=None if model is None else os.fspath(model),
            tokenizer=None if tokenizer is None else os.fspath(tokenizer),
            trust_remote_code=trust_remote_code,
            expert_parallel_size=expert_parallel_size,
            revision=revision,
            tokenizer_revision=tokenizer_revision,
            seed=seed,
            gpu_memory_utilization=gpu_memory_utilization,
            **{"disable_log_stats": True, "offline_inference": True, **kwargs},
        )
        self.decode_sequence = decode_sequence
        options = self.engine_args.to_options()
        options.model = _find(options.model, revision)
        with Call():
            self._engine = _core.Engine(options)
        self._tokenizer: Tokenizer | None = None

    # --- completions -----------------------------------------------------------------------------

    def generate(
        self,
        prompts: str | Sequence[str] | None = None,
        sampling_params: Params = None,
        prompt_token_ids: Sequence[TokenIds] | TokenIds | None = None,
        use_tqdm: bool = True,
        multi_modal_data: Any = None,
        *,
        skip_special_tokens: bool = False,
        add_bos: bool | None = None,
        strict: bool = False,
    ) -> list[Any]:
        """Completes prompts; one result for each, in input order (`n` of them in a row).

        Args:
            prompts: a text or several. A BOS is put in front unless the text begins with one.
            sampling_params: one for all, or one for each prompt; None: SamplingParams().
            prompt_token_ids: used as they are, instead of the texts.
            use_tqdm: a progress bar on stderr.
            multi_modal_data: images; not in this version.
            skip_special_tokens: leave special tokens (a closing end of sentence) out of the texts.
            add_bos: whether texts get a BOS; None: the tokenizer's policy.
            strict: raise ValueError for a bad prompt before anything runs.

        Returns:
            Texts, special tokens kept; with `decode_sequence=False` a list of RequestOutput for
            each sample, one a generated token. A bad prompt (too long, an unknown id) has text ""
            and its `finish_reason`, and never stops the others.
        """
        inputs = _inputs(prompts, prompt_token_ids)
        params = _core_params(sampling_params, len(inputs))
        _refuse_images(multi_modal_data)
        with Call() as call:
            with _Progress(_samples(params, len(inputs)), use_tqdm) as progress:
                results = self._engine.generate(
                    inputs, params, None, progress.update, call.stop.is_set, add_bos, strict
                )
            if not self.decode_sequence:
                return [result.request_outputs() for result in results]
            if skip_special_tokens:
                return [result.text_skip_special for result in results]
            return [result.text for result in results]

    def generate_iter(
        self,
        prompts: str | Sequence[str] | None = None,
        sampling_params: Params = None,
        prompt_token_ids: Sequence[TokenIds] | TokenIds | None = None,
        *,
        add_bos: bool | None = None,
        strict: bool = False,
    ) -> Iterator[tuple[int, RequestOutput]]:
        """Yields (index, RequestOutput) as tokens arrive; `index` counts as in generate()'s list.

        Closing the iterator aborts what is unfinished.
        """
        inputs = _inputs(prompts, prompt_token_ids)
        params = _core_params(sampling_params, len(inputs))
        counts = [param.n for param in params] if len(params) > 1 else [params[0].n] * len(inputs)
        first = [0, *accumulate(counts)]

        def run(emit: Callable[[Any], None], cancelled: Callable[[], bool]) -> None:
            def on_token(index: int, sample: int, output: RequestOutput, _text: str) -> None:
                emit((first[index] + sample, output))

            self._engine.generate(inputs, params, on_token, None, cancelled, add_bos, strict)

        return _stream(run)

    def score(
        self,
        prompts: str | Sequence[str] | None = None,
        prompt_token_ids: Sequence[TokenIds] | TokenIds | None = None,
        *,
        top_logprobs: int = 0,
        add_bos: bool | None = None,
        use_tqdm: bool = False,
        strict: bool = False,
    ) -> list[ScoreResult]:
        """Log-probabilities of given texts or ids; one result for each, in input order.

        Args:
            top_logprobs: how many of the most likely tokens to report at each position.
            others: as in generate().
        """
        inputs = _inputs(prompts, prompt_token_ids)
        with Call(), _Progress(len(inputs), use_tqdm) as progress:
            results = self._engine.score(inputs, top_logprobs, progress.update, add_bos, strict)
        return [
            ScoreResult(
                token_ids=result.token_ids,
                token_logprobs=[None, *result.token_logprobs[1:]] if result.token_ids else [],
                top_logprobs=result.top_logprobs,
                error=result.error,
            )
            for result in results
        ]

    # --- conversations ---------------------------------------------------------------------------

    @overload
    def chat(
        self,
        messages: Conversation | Sequence[Conversation],
        sampling_params: Params = None,
        *,
        thinking: bool = True,
        reasoning_effort: Effort = "high",
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: Any = "auto",
        response_format: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
        use_tqdm: bool = False,
        strict: bool = False,
    ) -> list[ChatResult]: ...
    @overload
    def chat(
        self,
        messages: Conversation | Sequence[Conversation],
        sampling_params: Params = None,
        *,
        thinking: bool = True,
        reasoning_effort: Effort = "high",
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: Any = "auto",
        response_format: Mapping[str, Any] | None = None,
        stream: Literal[True],
        use_tqdm: bool = False,
        strict: bool = False,
    ) -> Iterator[ChatDelta]: ...
    def chat(
        self,
        messages: Conversation | Sequence[Conversation],
        sampling_params: Params = None,
        *,
        thinking: bool = True,
        reasoning_effort: Effort = "high",
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: Any = "auto",
        response_format: Mapping[str, Any] | None = None,
        stream: bool = False,
        use_tqdm: bool = False,
        strict: bool = False,
    ) -> list[ChatResult] | Iterator[ChatDelta]:
        """Answers one conversation or several; one ChatResult for each, in input order.

        Args:
            messages: a conversation (a list of messages with `role` and `content`), or several.
            sampling_params: one for all or one each; None: the defaults of the chat format.
            thinking: let the model reason first.
            reasoning_effort: "low", "high", "max", or 1 to 100.
            tools: function definitions in OpenAI's form.
            tool_choice: "auto", "none" or "required".
            response_format: as in Chat Completions.
            stream: return an iterator of ChatDelta instead; closing it aborts.
            strict: raise ValueError for a bad conversation before anything runs.
        """
        conversations = _conversations(messages)
        requests = [
            request_json(
                conversation,
                thinking=thinking,
                reasoning_effort=reasoning_effort,
                tools=tools,
                tool_choice=tool_choice,
                response_format=response_format,
            )
            for conversation in conversations
        ]
        given = sampling_params is not None
        params = _core_params(sampling_params, len(requests)) if given else []
        if not stream:
            with Call() as call:
                with _Progress(len(requests), use_tqdm) as progress:
                    results = self._engine.chat(
                        requests, params, False, None, progress.update, call.stop.is_set, strict
                    )
                return [ChatResult._from_core(result) for result in results]

        def run(emit: Callable[[Any], None], cancelled: Callable[[], bool]) -> None:
            def on_delta(index: int, kind: int, *details: Any) -> None:
                emit(ChatDelta(index, _DELTA_KINDS[kind], *details))  # type: ignore[arg-type]

            results = self._engine.chat(requests, params, False, on_delta, None, cancelled, strict)
            for result in results:
                emit(ChatDelta(result.index, "finished", result=ChatResult._from_core(result)))

        return _stream(run)

    # --- the rest --------------------------------------------------------------------------------

    def get_tokenizer(self) -> Tokenizer:
        """The tokenizer in use."""
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self.info.tokenizer_path)
        return self._tokenizer

    @property
    def info(self) -> _core.EngineInfo:
        """What the engine is: paths, device, numerics, limits."""
        return self._engine.info

    def close(self) -> None:
        """Frees weights and caches; calling it again does nothing."""
        self._engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _find(model: str | None, revision: str | None) -> str:
    """The folder of a checkpoint; a hub name that somebody gave is downloaded if need be."""
    if model is not None and revision and "@" not in model and not Path(model).is_dir():
        model = f"{model}@{revision}"
    package = str(Path(__file__).parent.parent)
    folder, missing = _core.find_checkpoint(model, package)
    if missing is not None:
        repo, wanted, reason = missing
        try:
            hub.download(repo, None if wanted == "main" else wanted)
        except hub.HubError as error:
            kind = OSError if error.exit_code == 1 else _core.CheckpointError
            raise kind(f"{error} ({reason})") from error
        folder, missing = _core.find_checkpoint(model, package)
        if missing is not None:
            raise _core.CheckpointError(f"{repo}: downloaded, but {missing[2]}")
    assert folder is not None
    return folder


def _inputs(prompts: Any, prompt_token_ids: Any) -> list[Any]:
    """The prompts as a list of strings or of id lists. Raises for what concerns the whole call."""
    texts = [prompts] if isinstance(prompts, str) else prompts
    if texts is not None:
        _refuse(_NO_IDS, "prompts", texts, "a string or a list of prompts")
        texts = list(texts)
        for index, text in enumerate(texts):
            _refuse(_NO_IDS, f"prompts[{index}]", text, "a string or a list of token ids")
    if prompt_token_ids is None:
        if texts is None:
            raise ValueError("give prompts or prompt_token_ids")
        inputs = texts
    else:
        refused = (str, *_NO_IDS)
        _refuse(refused, "prompt_token_ids", prompt_token_ids, "a list of lists of token ids")
        inputs = list(prompt_token_ids)
        for index, ids in enumerate(inputs):
            _refuse(refused, f"prompt_token_ids[{index}]", ids, "a list of token ids")
        if inputs and hasattr(inputs[0], "__index__") and not hasattr(inputs[0], "__len__"):
            inputs = [inputs]
        if texts is not None and len(texts) != len(inputs):
            raise ValueError(f"{len(texts)} prompts, but {len(inputs)} lists of prompt_token_ids")
    if not inputs:
        raise ValueError("there is no prompt")
    return inputs


def _refuse(types: tuple[type, ...], name: str, value: Any, wanted: str) -> None:
    if isinstance(value, types):
        raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def _conversations(messages: Any) -> list[Conversation]:
    """One conversation or several as a list of them."""
    refused = (str, *_NO_IDS)
    _refuse(refused, "messages", messages, "a list of messages")
    if not messages or isinstance(messages[0], Mapping):
        return [messages]
    for index, conversation in enumerate(messages):
        _refuse(refused, f"messages[{index}]", conversation, "a list of messages")
    return list(messages)


def _core_params(params: Params, count: int) -> list[_core.SamplingParams]:
    if params is None:
        params = SamplingParams()
    given = [params] if isinstance(params, SamplingParams) else list(params)
    if not isinstance(params, SamplingParams) and len(given) != count:
        raise ValueError(f"{count} prompts, but {len(given)} sampling_params")
    for item in given:
        if not isinstance(item, SamplingParams):
            raise TypeError(f"sampling_params must be SamplingParams, not {type(item).__name__}")
        if item.so_args is not None:
            raise NotImplementedError("so_args: this version has no structured outputs")
    return [item._core() for item in given]


def _samples(params: list[_core.SamplingParams], count: int) -> int:
    return params[0].n * count if len(params) == 1 else sum(item.n for item in params)


def _refuse_images(multi_modal_data: Any) -> None:
    items = multi_modal_data if isinstance(multi_modal_data, (list, tuple)) else [multi_modal_data]
    if any(items):
        raise NotImplementedError("multi_modal_data: this version takes no images")


class _Progress:
    """One tick for each finished request."""

    def __init__(self, total: int, enabled: bool) -> None:
        self._bar = tqdm(total=total, desc="Processed prompts") if enabled else None
        self.update = self._bar.update if self._bar is not None else None

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _stream(run: Callable[[Callable[[_Item], None], Callable[[], bool]], None]) -> Iterator[_Item]:
    """Runs `run(emit, cancelled)` on a thread of its own and yields what it emits.

    The thread starts with the first item asked for. Closing the iterator, or an exception in the
    consumer (Ctrl-C too), cancels the run and waits for its end; so does the interpreter's exit.
    """
    items: queue.SimpleQueue[tuple[Literal["item", "error", "end"], Any]] = queue.SimpleQueue()
    call = Call()

    def work() -> None:
        with call:
            try:
                run(lambda item: items.put(("item", item)), call.stop.is_set)
                items.put(("end", None))
            except BaseException as error:  # handed over to the consumer
                items.put(("error", error))

    thread = threading.Thread(target=work, name="deepinfer-stream", daemon=True)
    try:
        thread.start()
    except BaseException:
        call.end()
        raise
    try:
        while True:
            what, value = items.get()
            if what == "end":
                return
            if what == "error":
                raise value
            yield value
    finally:
        call.stop.set()
        thread.join()
