#!/usr/bin/env python3
"""Compares our tokenizer with the Hugging Face `tokenizers` library: same text, one thread.

    pip install tokenizers==0.23.3
    python benchmarks/tokenizer_speed.py --tokenizer DIR --benchmark build/.../tokenizer_benchmark

DIR holds tokenizer.json. About 10 MB of mixed text (English, code, markup, digits, CJK, emoji) are
taken from files of this machine and generated from a fixed seed; the two libraries take turns, and
their ids must be equal. Exit status: 0 if equal and ours is not slower, 1 otherwise.

Both run over the same documents of about 4 KB and, with --whole, over one single document; each
side's best round counts, in processor time, so that other work on the machine disturbs little. The
library's fastest way is used (encode_batch_fast, which computes no offsets).
"""

from __future__ import annotations

import argparse
import array
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizers

DOCUMENT_BYTES = 4096
SOURCES = {
    "english": ("/usr/share/doc", ("copyright", "README", "NEWS", "README.Debian")),
    "markup": ("/usr/share", (".html", ".xml", ".svg", ".md", ".json")),
    "code": (str(Path(os.__file__).parent), (".py",)),
    "headers": ("/usr/include", (".h", ".hpp")),
}


def text_of_files(folder: str, endings: tuple[str, ...], size: int) -> str:
    """The beginning of the folder's files in sorted order, `size` characters of it or fewer."""
    parts: list[str] = []
    total = 0
    for path in sorted(Path(folder).rglob("*")):
        if total >= size:
            break
        if not path.name.endswith(endings) or not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "ignore").replace("\0", "")[:200_000]
        parts.append(text)
        total += len(text)
    return "".join(parts)[:size]


def generated_cjk(rng: random.Random, size: int) -> str:
    """Chinese, Japanese and Korean sentences over characters drawn by a steep distribution."""
    han = [chr(0x4E00 + (k * 7919) % 20902) for k in range(4000)]
    kana = [chr(value) for value in range(0x3041, 0x30FF)]
    hangul = [chr(0xAC00 + (k * 271) % 11172) for k in range(1500)]
    parts: list[str] = []
    total = 0
    while total < size:
        pool = rng.choice((han, han, han + kana, hangul))
        words = [
            "".join(pool[int(len(pool) * rng.random() ** 3)] for _ in range(rng.randint(2, 18)))
            for _ in range(rng.randint(1, 4))
        ]
        sentence = (" " if pool is hangul else "，").join(words) + rng.choice("。！？\n")
        parts.append(sentence)
        total += len(sentence)
    return "".join(parts)


def generated_digits_and_emoji(rng: random.Random, size: int) -> str:
    emoji = [chr(value) for value in (*range(0x1F300, 0x1F64F), *range(0x2600, 0x27BF))]
    parts: list[str] = []
    total = 0
    while total < size:
        number = rng.choice(
            (str(rng.randrange(10**9)), f"{rng.uniform(-1e4, 1e4):.4f}", "2026-10-17")
        )
        piece = number + rng.choice((" ", ", ", "\t", "\n", rng.choice(emoji) + "\u200d"))
        parts.append(piece)
        total += len(piece)
    return "".join(parts)


def mixed_text(size: int) -> dict[str, str]:
    rng = random.Random(20261017)
    shares = {"english": 0.3, "markup": 0.15, "code": 0.2, "headers": 0.1}
    texts = {
        name: text_of_files(*SOURCES[name], int(size * share)) for name, share in shares.items()
    }
    texts["cjk"] = generated_cjk(rng, int(size * 0.2 / 3))
    texts["digits, emoji"] = generated_digits_and_emoji(rng, int(size * 0.05))
    return texts


def documents_of(text: str) -> list[str]:
    """Cuts after the first line break beyond DOCUMENT_BYTES characters."""
    documents = []
    start = 0
    while start < len(text):
        end = text.find("\n", start + DOCUMENT_BYTES)
        end = len(text) if end < 0 else end + 1
        documents.append(text[start:end])
        start = end
    return documents


class Ours:
    def __init__(self, benchmark: str, directory: str, documents: list[str], folder: Path) -> None:
        text = folder / "text"
        text.write_bytes("\0".join(documents).encode())
        self.ids_file = folder / "ids"
        self.command = [
            benchmark,
            directory,
            str(text),
            "--rounds",
            "2",
            "--ids",
            str(self.ids_file),
        ]
        self.load_seconds = 0.0

    def run(self) -> tuple[float, array.array]:
        """The seconds of a warm round, and all ids."""
        output = subprocess.run(self.command, check=True, capture_output=True, text=True).stdout
        result = json.loads(output)
        self.load_seconds = result["load_seconds"]
        return min(result["seconds"]), array.array("i", self.ids_file.read_bytes())


class Theirs:
    def __init__(self, directory: str, documents: list[str]) -> None:
        start = time.process_time()
        self.tokenizer = tokenizers.Tokenizer.from_file(str(Path(directory) / "tokenizer.json"))
        self.load_seconds = time.process_time() - start
        self.documents = documents

    def run(self) -> tuple[float, array.array]:
        start = time.process_time()
        encodings = self.tokenizer.encode_batch_fast(self.documents, add_special_tokens=False)
        seconds = time.process_time() - start
        ids = array.array("i")
        for encoding in encodings:
            ids.extend(encoding.ids)
        return seconds, ids


def compare(name: str, documents: list[str], arguments: argparse.Namespace) -> bool:
    size = sum(len(document.encode()) for document in documents)
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(arguments.benchmark, arguments.tokenizer, documents, Path(folder))
        theirs = Theirs(arguments.tokenizer, documents)
        our_seconds, their_seconds = float("inf"), float("inf")
        for _ in range(arguments.rounds):
            seconds, our_ids = ours.run()
            our_seconds = min(our_seconds, seconds)
            seconds, their_ids = theirs.run()
            their_seconds = min(their_seconds, seconds)
            if our_ids != their_ids:
                print(f"{name}: the ids differ", file=sys.stderr)
                return False
    print(
        f"{name:14} {size / 1e6:6.2f} MB {len(our_ids):9} tokens   "
        f"ours {size / our_seconds / 1e6:7.1f} MB/s   "
        f"tokenizers {size / their_seconds / 1e6:6.2f} MB/s   "
        f"ratio {their_seconds / our_seconds:6.1f}   "
        f"load {ours.load_seconds:.2f} s / {theirs.load_seconds:.2f} s",
        flush=True,
    )
    return our_seconds <= their_seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", required=True, help="directory with tokenizer.json")
    parser.add_argument("--benchmark", required=True, help="the tokenizer_benchmark executable")
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="also as one single document")
    parser.add_argument("--parts", action="store_true", help="also each kind of text alone")
    arguments = parser.parse_args()

    texts = mixed_text(int(arguments.megabytes * 1e6))
    print(f"tokenizers {tokenizers.__version__}, one thread, best of {arguments.rounds}")
    documents = [document for text in texts.values() for document in documents_of(text)]
    good = compare("mixed", documents, arguments)
    if arguments.whole:
        good = compare("mixed, whole", ["".join(documents)], arguments) and good
    if arguments.parts:
        for name, text in texts.items():
            good = compare(name, documents_of(text), arguments) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
