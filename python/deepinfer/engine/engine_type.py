"""What an engine computes."""

from enum import IntEnum


class EngineType(IntEnum):
    """The official package's engine types; this version runs NORMAL."""

    NORMAL = 0
    PROMPT = 1
    COMPLETION = 2
