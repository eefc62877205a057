"""Training rows and evaluation files.

    python data.py knowledge DIR OUT        short descriptions from manual pages, for chat
    python data.py evaluation OUT           models/tiny/eval/*.jsonl
    python data.py tokens WORK              prose tokens, as WORK/{train,held_out}.npy
    python data.py tasks WORK LENGTH SHARDS task rows, as WORK/tasks-LENGTH-NNN.npz

Prose comes from .train/prose.jsonl(.xz), see prose.py. A shard depends on its number only.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import math
import multiprocessing
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from chat import BOS, EOS, Segment, render
from tasks import Generator, Item
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ROOT / ".train"
TINY = ROOT / "models/tiny"
ROWS = 4096  # rows of 512 tokens in a shard; longer rows are fewer
SEED = 20260


def templates() -> dict[str, str]:
    for path in (ROOT / "tests/golden/chat/templates.json", TRAIN / "templates.json"):
        if path.exists():
            return json.loads(path.read_text())
    raise FileNotFoundError("chat/templates.json of the golden data")


def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TINY / "tokenizer.json"))


def prose() -> list[dict[str, Any]]:
    plain = TRAIN / "prose.jsonl"
    text = (
        plain.read_text()
        if plain.exists()
        else lzma.decompress((TRAIN / "prose.jsonl.xz").read_bytes()).decode()
    )
    return [json.loads(line) for line in text.splitlines()]


def paragraphs(documents: list[dict[str, Any]], held_out: bool) -> list[str]:
    return [
        p
        for d in documents
        if d["held_out"] == held_out
        for p in d["text"].split("\n\n")
        if not p.startswith("#") and p.isascii()
    ]


def knowledge(documents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Topic and answer: one-line descriptions of commands, and first paragraphs of sections."""
    out = [(t, a) for t, a in json.loads((TRAIN / "knowledge.json").read_text())]
    for d in documents:
        if not d["held_out"]:
            out += [
                (m[1], m[2])
                for m in re.finditer(r"^# ([^\n]{4,50})\n\n([^\n]{100,400})$", d["text"], re.M)
            ]
    return out


def with_answer(item: Item) -> list[Item]:
    answer: Item = {"role": "assistant", "content": item["content"]}
    if item["thinking"]:
        answer["reasoning"] = item["reasoning"]
    if "calls" in item:
        answer["calls"] = item["calls"]
    return [*item["messages"], answer]


def segments(item: Item, fixed: dict[str, str], effort: str = "high") -> list[Segment]:
    return render(
        fixed,
        with_answer(item),
        thinking=item["thinking"],
        tools=item.get("tools"),
        schema=item.get("schema"),
        effort=effort,
    )


def encode(parts: list[Segment], tok: Tokenizer) -> tuple[list[int], list[int]]:
    """Token ids, and 1 where the model is to predict the token."""
    ids: list[int] = []
    weights: list[int] = []
    for text, wanted in parts:
        piece = tok.encode(text, add_special_tokens=False).ids
        ids += piece
        weights += [int(wanted)] * len(piece)
    return ids, weights


# --------------------------------------------------------------------------- training rows


def items(generator: Generator, length: int) -> Iterator[Item]:
    """Endless items for rows of `length` tokens; about half of the tokens are recall."""
    r = generator.random
    while True:
        if r.random() < (0.14 if length <= 512 else 0.10):
            longest = 3.0 * length
            characters = int(200 * (longest / 200) ** r.random())
            if length > 512 and r.random() < 0.5:
                characters = int(longest * r.uniform(0.4, 1.0))
            questions = r.randint(1, 3) if length <= 512 else r.randint(2, 8)
            yield generator.recall(characters, questions, near_end=r.random() < 0.3)
        else:
            yield generator.any()


def make_shard(args: tuple[Path, int, int]) -> Path:
    work, length, number = args
    path = work / f"tasks-{length}-{number:03d}.npz"
    if path.exists():
        return path
    filler, facts = _worker["filler"], _worker["knowledge"]
    generator = Generator(SEED + 1000 * number + length, True, filler, facts)
    fixed, tok, r = templates(), tokenizer(), random.Random(number)
    rows = max(64, ROWS * 512 // length)
    ids = np.full((rows, length + 1), 2, np.uint16)
    weights = np.zeros((rows, length + 1), np.uint8)
    source = items(generator, length)
    waiting: list[tuple[list[int], list[int]]] = []
    for row in range(rows):
        at = 0
        while True:
            if not waiting:
                item = next(source)
                effort = r.choice(("low", "high", "high", "max"))
                waiting.append(encode(segments(item, fixed, effort), tok))
            piece, wanted = waiting[-1]
            if len(piece) > length + 1:
                waiting.pop()
                continue
            if at + len(piece) > length + 1:
                break  # opens the next row
            waiting.pop()
            ids[row, at : at + len(piece)] = piece
            weights[row, at : at + len(piece)] = wanted
            at += len(piece)
            if at > length - 16:
                break
    temporary = path.with_suffix(".tmp.npz")
    np.savez(temporary, ids=ids, weights=weights)
    temporary.rename(path)
    return path


_worker: dict[str, Any] = {}


def start_worker() -> None:
    documents = prose()
    _worker["filler"] = paragraphs(documents, held_out=False)
    _worker["knowledge"] = knowledge(documents)


def write_tasks(work: Path, length: int, shards: int) -> None:
    work.mkdir(parents=True, exist_ok=True)
    processes = max(1, (os.cpu_count() or 2) - 2)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    start_worker()  # before the fork, so that the children share it
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for path in pool.imap_unordered(make_shard, [(work, length, i) for i in range(shards)]):
            print(path.name, flush=True)


def write_tokens(work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    tok = tokenizer()
    documents = prose()
    order = list(range(len(documents)))
    random.Random(SEED).shuffle(order)
    for name, held_out in (("held_out", True), ("train", False)):
        texts = [
            BOS + documents[i]["text"] + EOS for i in order if documents[i]["held_out"] == held_out
        ]
        ids = [i for e in tok.encode_batch(texts, add_special_tokens=False) for i in e.ids]
        np.save(work / f"{name}.npy", np.array(ids, np.uint16))
        print(f"{name}: {len(texts)} documents, {len(ids)} tokens", flush=True)


# --------------------------------------------------------------------------- evaluation

COUNT = 200


def evaluation_items() -> dict[str, list[Item]]:
    documents = prose()
    generator = Generator(SEED + 7, False, paragraphs(documents, held_out=True))
    r = generator.random
    out: dict[str, list[Item]] = {}

    def collect(name: str, make: Any, thinking: bool | None) -> None:
        chosen: list[Item] = []
        seen: set[str] = set()
        while len(chosen) < COUNT:
            item = make()
            key = json.dumps(item["messages"])
            if thinking in (None, item["thinking"]) and key not in seen:
                seen.add(key)
                chosen.append(item | {"task": name})
        out[name] = chosen

    collect("add", generator.add, False)
    collect("add_thinking", generator.add, True)
    collect("sort", generator.sort, False)
    collect("copy", generator.copy, False)
    collect("json", generator.json, False)
    collect("json_thinking", generator.json, True)
    collect("system", generator.system, False)
    collect("tool", generator.tool, False)
    collect("tool_thinking", generator.tool, True)
    collect(
        "recall",
        lambda: generator.recall(int(200 * 50 ** r.random()), near_end=r.random() < 0.6),
        False,
    )
    return out


def distance(item: Item, fixed: dict[str, str], tok: Tokenizer) -> int:
    """Tokens from the start of the fact asked for to the end of the prompt."""
    text = "".join(t for t, _ in segments(item, fixed)[:-1])
    encoded = tok.encode(text, add_special_tokens=False)
    question = item["messages"][-1]["content"]
    thing = re.search(r"code of the ([a-z ]+)[.?]$", question)
    assert thing
    start = text.index(f"The code of the {thing[1]} is")
    first = next(i for i, (_, b) in enumerate(encoded.offsets) if b > start)
    return len(encoded.ids) - first


def write_evaluation(out: Path) -> None:
    fixed, tok = templates(), tokenizer()
    out.mkdir(parents=True, exist_ok=True)
    for name, chosen in evaluation_items().items():
        with (out / f"{name}.jsonl").open("w") as sink:
            for item in chosen:
                target = segments(item, fixed)[-1][0].removesuffix(EOS)
                size = len(tok.encode(target, add_special_tokens=False).ids)
                record: Item = {"task": name, "messages": item["messages"]}
                if "tools" in item:
                    record["tools"] = item["tools"]
                record |= {
                    "thinking": item["thinking"],
                    "max_tokens": 16 * math.ceil((size + 17) / 16),
                    "expected": item["expected"],
                    "check": item["check"],
                }
                if name == "recall":
                    record["distance"] = distance(item, fixed, tok)
                record["reference"] = target
                sink.write(json.dumps(record, ensure_ascii=False) + "\n")
    held = [d for d in prose() if d["held_out"]]
    random.Random(SEED).shuffle(held)
    with (out / "prose.jsonl").open("w") as sink:
        size = 0
        for d in held:
            if size < 160_000:
                text = d["text"][:4000]
                size += len(text)
                sink.write(
                    json.dumps(
                        {"task": "prose", "text": text, "source": d["source"]}, ensure_ascii=False
                    )
                    + "\n"
                )


def read_knowledge(root: Path, out: Path) -> None:
    """`name - description` lines of manual pages."""
    found: dict[str, str] = {}
    for package in ("manpages", "manpages-dev", "git-man", "openssl"):
        for path in sorted((root / "x" / package).rglob("*.gz")):
            if "/man/man" not in str(path):
                continue
            text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            m = re.search(r'^\.SH "?NAME"?\n(?:\.\\".*\n)*(.+)$', text, re.M)
            if not m:
                continue
            line = re.sub(r"\\f[A-Z]|\\&|\"", "", m[1]).replace("\\-", "-")
            names, _, description = line.partition(" - ")
            name = names.split(",")[0].strip()
            if (
                description.isascii()
                and 8 < len(description) < 120
                and re.fullmatch(r"[\w.-]{2,30}", name)
            ):
                description = description.strip().rstrip(".")
                found[name] = f"{name}: {description}."
    out.write_text(json.dumps(sorted(found.items())))
    print(len(found), "descriptions")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("knowledge", "evaluation", "tokens", "tasks"))
    parser.add_argument("arguments", nargs="+")
    args = parser.parse_args()
    first = Path(args.arguments[0])
    if args.command == "knowledge":
        read_knowledge(first, Path(args.arguments[1]))
    elif args.command == "evaluation":
        write_evaluation(first)
    elif args.command == "tokens":
        write_tokens(first)
    else:
        write_tasks(first, int(args.arguments[1]), int(args.arguments[2]))


if __name__ == "__main__":
    main()
