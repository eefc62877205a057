"""The checkpoint's tokenizer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import SupportsIndex

from deepinfer import _core


class Tokenizer:
    """Byte-level BPE read from a folder's `tokenizer.json`; equal to `tokenizers`, id for id.

    `tokenizer_compatibility` of a `config.json` beside it is honoured: with `release` (the default)
    plain text gets a BOS wherever the policy is asked for.

    Raises CheckpointError when a file is missing, corrupt or asks for something unknown. Any number
    of threads may use one object.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        self._core = _core.Tokenizer.load(self.path, _compatibility(Path(path)))

    def encode(
        self, text: str, *, add_bos: bool | None = False, parse_special: bool = True
    ) -> list[int]:
        """Ids of `text`.

        Args:
            add_bos: put BOS in front unless the text begins with it; None: by the file's policy.
            parse_special: whether spellings of special tokens in the text become their ids.
        """
        bos = self._core.adds_bos if add_bos is None else add_bos
        return self._core.encode(text, bos, parse_special)

    def decode(
        self, ids: Iterable[SupportsIndex] | SupportsIndex, skip_special_tokens: bool = False
    ) -> str:
        """Text of `ids`; bytes that are no UTF-8 become U+FFFD. ValueError for an unknown id."""
        if hasattr(ids, "__index__") and not hasattr(ids, "__iter__"):
            ids = [ids]  # type: ignore[list-item]
        return self._core.decode(ids, skip_special_tokens)  # type: ignore[arg-type]

    def token_to_id(self, token: str) -> int | None:
        """The id of a spelling in the vocabulary, or None."""
        return self._core.token_id(token)

    def id_to_token(self, token_id: int) -> str:
        """The spelling in the vocabulary: an added token's text, or bytes in the BPE alphabet."""
        return self._core.token_text(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the id stands for; perhaps a part of a character."""
        return self._core.token_bytes(token_id)

    def is_special(self, token_id: int) -> bool:
        """Whether `skip_special_tokens` leaves the id out."""
        return self._core.is_special(token_id)

    @property
    def vocab_size(self) -> int:
        """Ids known, added tokens included."""
        return self._core.vocab_size

    def __len__(self) -> int:
        return self._core.vocab_size

    @property
    def bos_token_id(self) -> int | None:
        return self._core.bos_id

    @property
    def eos_token_id(self) -> int | None:
        return self._core.eos_id

    @property
    def pad_token_id(self) -> int | None:
        return self._core.pad_id

    def __repr__(self) -> str:
        return f"Tokenizer({self.path!r}, vocab_size={self.vocab_size})"


def _compatibility(folder: Path) -> str:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "release"  # the engine judges config.json, not the tokenizer
    value = config.get("tokenizer_compatibility", "release") if isinstance(config, dict) else None
    return value if isinstance(value, str) else "release"
