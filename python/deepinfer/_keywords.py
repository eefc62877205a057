"""Messages for keywords that a function doesn't know."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def reject_unknown(function: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError naming the first of `unknown` and the nearest known keyword."""
    for name in unknown:
        message = f"{function}() got an unexpected keyword argument {name!r}"
        nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
        if nearest:
            message += f"; did you mean {nearest[0]!r}?"
        raise TypeError(message)
