"""The V4.1 chat format (interface.md 7.3) for the conversations the tasks use.

Text and tools only: no images, no prefix messages, no task tokens.
"""

from __future__ import annotations

import json
from typing import Any

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
SYSTEM, USER, ASSISTANT = "<｜System｜>", "<｜User｜>", "<｜Assistant｜>"
DSML = "｜DSML｜"
EFFORT = {"low": 50, "high": 75, "xhigh": 75, "max": 100}

Segment = tuple[str, bool]  # text, and whether the model is to write it


def render_call(name: str, arguments: dict[str, Any]) -> str:
    lines = []
    for key, value in arguments.items():
        if isinstance(value, str):
            kind, text = "true", value
        else:
            kind, text = "false", json.dumps(value, ensure_ascii=False)
        lines.append(f'<{DSML} parameter name="{key}" string="{kind}">{text}</{DSML} parameter>')
    return f'<{DSML} invoke name="{name}">\n' + "\n".join(lines) + f"\n</{DSML} invoke>"


def render_calls(calls: list[dict[str, Any]]) -> str:
    body = "\n".join(render_call(c["name"], c["arguments"]) for c in calls)
    return f"\n\n<{DSML} calls>\n{body}\n</{DSML} calls>"


def render(
    templates: dict[str, str],
    messages: list[dict[str, Any]],
    *,
    thinking: bool,
    tools: list[dict[str, Any]] | None = None,
    schema: dict[str, Any] | None = None,
    effort: str = "high",
) -> list[Segment]:
    """Segments of the conversation; the last one opens the assistant turn to be written.

    An assistant message may carry `reasoning` and `calls`. With tools all reasoning is kept;
    without, it is dropped from history, except in a final assistant message, which is the
    answer to learn: then the conversation ends with it and EOS.
    """
    out: list[Segment] = []
    head = BOS
    if thinking:
        head += SYSTEM + templates["reasoning_effort"].replace("{effort}", str(EFFORT[effort]))
    rest = list(messages)
    opening = ""
    if (tools or schema) and (not rest or rest[0]["role"] != "system"):
        rest.insert(0, {"role": "system", "content": ""})
    if rest and rest[0]["role"] == "system":
        opening = "" if thinking else SYSTEM
        opening += rest.pop(0)["content"]
        if tools:
            functions = [t.get("function", t) for t in tools]
            lines = (
                json.dumps(
                    {
                        "name": f["name"],
                        "description": f.get("description") or "",
                        "parameters": f.get("parameters"),
                    },
                    ensure_ascii=False,
                )
                for f in functions
            )
            opening += "\n\n" + templates["tools"].replace("{schemas}", "\n".join(lines))
        if schema:
            opening += "\n\n" + templates["response_format"].replace(
                "{schema}", json.dumps(schema, ensure_ascii=False)
            )
    out.append((head + opening, False))
    blocks: list[str] = []  # of the user turn being collected

    def close_turn() -> None:
        if blocks:
            out.append((USER + "\n\n".join(blocks), False))
            blocks.clear()

    for position, message in enumerate(rest):
        role = message["role"]
        if role == "user":
            blocks.append(message["content"])
        elif role == "tool":
            blocks.append(f"<tool_result>{message['content']}</tool_result>")
        elif role == "assistant":
            close_turn()
            final = position == len(rest) - 1
            reasoned = thinking and (bool(tools) or final)
            out.append((ASSISTANT + ("<think>" if reasoned else "</think>"), False))
            text = message.get("reasoning", "") + "</think>" if reasoned else ""
            text += message["content"]
            if message.get("calls"):
                text += render_calls(message["calls"])
            out.append((text + EOS, True))
        else:
            raise ValueError(f"role {role}")
    if not rest or rest[-1]["role"] != "assistant":
        close_turn()
        out.append((ASSISTANT + ("<think>" if thinking else "</think>"), False))
    return out
