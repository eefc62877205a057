"""The DEEPINFER_* variables as typed values: `envs.DEEPINFER_BATCH_INVARIANT`.

A value that can't be parsed raises ValueError whose message starts with the variable's name.
`dir(envs)` lists them, `describe(name)` explains one.
"""

from __future__ import annotations

from typing import Any

from deepinfer import _core


def _settings() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in _core.environment_settings()}


def _value(row: dict[str, Any]) -> Any:
    if row["error"]:
        raise ValueError(row["error"])
    text: str = row["value"]
    kind = row["type"]
    if kind == "bool":
        return text not in ("", "0", "false", "False")
    if text == "":
        return None if kind != "text" else ""
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    if kind == "bytes":
        return _core.parse_bytes(text, row["name"])
    return text


def describe(name: str) -> str:
    """One paragraph: meaning, default, present value and where it comes from."""
    row = _settings()[name]
    origin = "environment" if row["from_environment"] else "default"
    default = row["default"] or "unset"
    return f"{name}: {row['meaning']} (default {default}; now {row['value']!r}, {origin})"


def __getattr__(name: str) -> Any:
    if name.startswith("DEEPINFER_"):
        row = _settings().get(name)
        if row is not None:
            return _value(row)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["describe", *_settings()]
