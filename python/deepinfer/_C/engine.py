"""`deepinfer._C.engine.RequestOutput`, where the official package has it."""

from deepinfer._core import RequestOutput

__all__ = ["RequestOutput"]
