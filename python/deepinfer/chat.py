"""The chat format of DeepSeek-V4.1: conversations to prompts, model text to messages."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deepinfer import _core
from deepinfer.tokenizer import Tokenizer

Message = Mapping[str, Any]
Effort = Literal["low", "high", "xhigh", "max"] | int


@dataclass(frozen=True)
class ToolCall:
    """A call the model asks for. `arguments` is a JSON object as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Usage:
    """Tokens of a conversation's turn."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class ChatResult:
    """The answer to one conversation. `error` says why a request failed, else it's empty."""

    content: str
    reasoning_content: str
    tool_calls: list[ToolCall]
    finish_reason: str
    usage: Usage
    token_ids: list[int] = field(repr=False)
    raw_text: str = field(repr=False)
    error: str = ""
    warnings: list[str] = field(default_factory=list)

    @staticmethod
    def _from_core(result: _core.ChatResult) -> ChatResult:
        usage = result.usage
        return ChatResult(
            content=result.content,
            reasoning_content=result.reasoning_content,
            tool_calls=[ToolCall(call.id, call.name, call.arguments) for call in result.tool_calls],
            finish_reason=result.finish_reason,
            usage=Usage(usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens),
            token_ids=result.token_ids,
            raw_text=result.raw_text,
            error=result.error,
            warnings=result.warnings,
        )


@dataclass(frozen=True)
class ChatDelta:
    """A piece of a streamed answer.

    `kind` is "reasoning", "content", "tool_call" (`text` continues the arguments; the first delta
    of a call carries `tool_id` and `tool_name`), or "finished", which comes once for each
    conversation and carries the whole `result`. `index` numbers the conversation.
    """

    index: int
    kind: Literal["reasoning", "content", "tool_call", "finished"]
    text: str = ""
    tool_index: int = 0
    tool_id: str = ""
    tool_name: str = ""
    result: ChatResult | None = None


@dataclass(frozen=True)
class RenderedChat:
    """A prompt as the model sees it."""

    text: str
    token_ids: list[int] = field(repr=False)


@dataclass(frozen=True)
class ParsedMessage:
    """A model's text taken apart."""

    content: str
    reasoning_content: str
    tool_calls: list[ToolCall]
    finish_reason: str


def request_json(
    messages: Sequence[Message],
    *,
    thinking: bool = True,
    reasoning_effort: Effort = "high",
    tools: Sequence[Mapping[str, Any]] | None = None,
    tool_choice: Any = "auto",
    response_format: Mapping[str, Any] | None = None,
) -> str:
    """The Chat Completions request with these fields, as the engine reads it."""
    request: dict[str, Any] = {
        "messages": list(messages),
        "thinking": {"type": "enabled" if thinking else "disabled"},
    }
    if thinking:
        request["reasoning_effort"] = reasoning_effort
    if tools:
        request["tools"] = list(tools)
        request["tool_choice"] = tool_choice
    if response_format is not None:
        request["response_format"] = dict(response_format)
    return json.dumps(request, ensure_ascii=False)


class ChatEncoder:
    """Renders conversations without an engine.

    Args:
        tokenizer: a Tokenizer, or the folder of one. Without it only the text is made.
    """

    def __init__(self, tokenizer: Tokenizer | str | os.PathLike[str] | None = None) -> None:
        if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
            tokenizer = Tokenizer(tokenizer)
        self.tokenizer = tokenizer

    def encode(
        self,
        messages: Sequence[Message],
        *,
        thinking: bool = True,
        reasoning_effort: Effort = "high",
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: Any = "auto",
        response_format: Mapping[str, Any] | None = None,
    ) -> RenderedChat:
        """The prompt of one conversation. Its ids are empty without a tokenizer.

        Only the control tokens that the format itself places become special ids: a user who types
        `<｜User｜>` gets plain text. Raises ValueError naming a field that is wrong.
        """
        request = request_json(
            messages,
            thinking=thinking,
            reasoning_effort=reasoning_effort,
            tools=tools,
            tool_choice=tool_choice,
            response_format=response_format,
        )
        core = self.tokenizer._core if self.tokenizer else None
        return RenderedChat(*_core.render_chat(core, request))


def parse_output(
    text: str,
    thinking: bool = True,
    *,
    tools: bool = True,
    stop: Sequence[str] = (),
    finish_reason: str = "stop",
) -> ParsedMessage:
    """Takes a model's text (what follows the prompt) apart.

    Args:
        thinking: the text starts inside the reasoning.
        tools: look for tool calls.
        stop: stop strings; they count in the content only and are cut.
        finish_reason: why generation ended: "stop" or "length".
    """
    reasoning, content, calls, reason = _core.parse_output(
        text, thinking, tools, list(stop), finish_reason
    )
    return ParsedMessage(
        content=content,
        reasoning_content=reasoning,
        tool_calls=[
            ToolCall(f"call_{index}", name, arguments)
            for index, (name, arguments) in enumerate(calls)
        ],
        finish_reason=reason,
    )
