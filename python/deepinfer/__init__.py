"""An inference engine for DeepSeek-V4.1-Flash, with the interface of the official `deepinfer`.

    from deepinfer import LLM, SamplingParams

    with LLM("tiny") as llm:
        print(llm.generate("A file system is", SamplingParams(temperature=0, max_tokens=32)))

Importing needs no device and loads no model.
"""

from deepinfer import envs
from deepinfer._core import CheckpointError, RequestOutput, __version__
from deepinfer.chat import ChatDelta, ChatEncoder, ChatResult, RenderedChat, ToolCall, parse_output
from deepinfer.engine.arg_utils import EngineArgs
from deepinfer.entrypoints.llm import LLM, ScoreResult
from deepinfer.sampling_params import SamplingParams
from deepinfer.tokenizer import Tokenizer

__all__ = [
    "LLM",
    "ChatDelta",
    "ChatEncoder",
    "ChatResult",
    "CheckpointError",
    "EngineArgs",
    "RenderedChat",
    "RequestOutput",
    "SamplingParams",
    "ScoreResult",
    "Tokenizer",
    "ToolCall",
    "__version__",
    "envs",
    "parse_output",
]
