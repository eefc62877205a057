"""The arrows of docs/architecture.md hold: no room includes a header of a higher one.

The linker refuses a forbidden call; a forbidden include of inline code it can't see.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def documented_arrows() -> dict[str, set[str]]:
    """Room to the rooms it links, from the table of docs/architecture.md, transitively closed."""
    arrows: dict[str, set[str]] = {}
    for line in (ROOT / "docs/architecture.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 6 or not cells[1].startswith("`") or not cells[1].endswith("/`"):
            continue
        room = cells[1].strip("`").rstrip("/")
        if cells[4] == "the rooms above":
            arrows[room] = set(arrows)
        else:
            arrows[room] = {name.strip() for name in cells[4].split(",") if name.strip()}
    if arrows:  # `cache` in the table stands for both of its rooms
        for seen in arrows.values():
            if "cache" in seen:
                seen.remove("cache")
                seen.update({"cache/plan", "cache/store"})
    for _ in arrows:
        for seen in arrows.values():
            for lower in list(seen):
                seen.update(arrows[lower])
    return arrows


def room_of(path: str, rooms: list[str]) -> str | None:
    """The most specific room that a path relative to src/ lies in."""
    inside = [room for room in rooms if path.startswith(room + "/")]
    return max(inside, key=len, default=None)


def test_no_room_includes_a_higher_one() -> None:
    arrows = documented_arrows()
    rooms = list(arrows)
    assert {path.name for path in (ROOT / "src").iterdir() if any(path.iterdir())} == {
        room.split("/")[0] for room in rooms
    }, "every folder of src/ is a room of docs/architecture.md"
    wrong = []
    seen = 0
    for file in sorted([*(ROOT / "src").rglob("*.h"), *(ROOT / "src").rglob("*.cc")]):
        name = file.relative_to(ROOT / "src").as_posix()
        room = room_of(name, rooms)
        assert room is not None, name
        if name.endswith("_test.cc"):
            continue  # a test may compare with another room
        for included in INCLUDE.findall(file.read_text()):
            target = room_of(included, rooms)
            if target is None or target == room:
                continue
            seen += 1
            if target not in arrows[room]:
                wrong.append(f"{name} includes {included}, but {room} may not see {target}")
    assert seen > 100
    assert not wrong, "\n".join(wrong)
