"""The list of mutants: what each changes, and who found it."""

import dataclasses
import random
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from hwd_drivers.core.structs import from_json, to_json

from .changes import Change, places, planted

LIST = Path(__file__).with_name("mutants.json")
SEED = 35
COUNT = 160
LEAST = 2
"""Of each room."""


class Mutant(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One change of a file. `found_by`: a test; empty where none does. `judged`: why no test has to."""

    file: str
    function: str
    statement: str
    before: str
    after: str
    nth: int = 0
    found_by: str = ""
    judged: str = ""

    @property
    def change(self) -> Change:
        return Change(
            function=self.function, statement=self.statement, before=self.before, after=self.after, nth=self.nth
        )

    @property
    def room(self) -> str:
        return room_of(self.file)

    def __str__(self) -> str:
        return f"{self.file} {self.function}: {self.before} -> {self.after}"


def room_of(file: str) -> str:
    """`hwd/jobs`, `agents/bus`, `drivers/families/polatis`."""
    parts = Path(file).parts[1 if file.startswith("hwd/") else 2 : -1]
    top = Path(file).parts[0]
    depth = 2 if parts[:1] == ("families",) else 1
    return "/".join((top, *parts[:depth]))


def tests_of_room(room: str) -> str:
    """The folder of the tests of a room: one family of drivers has none of its own."""
    return f"tests/{room.removeprefix('hwd/').partition('/families')[0]}/"


def read() -> list[Mutant]:
    return from_json(LIST.read_bytes(), list[Mutant]) if LIST.is_file() else []


def write(mutants: list[Mutant]) -> None:
    LIST.write_bytes(msgspec.json.format(to_json(mutants), indent=1) + b"\n")


def draw(tree: Path, executed: Mapping[str, set[int]], python: Path) -> list[Mutant]:
    """A share in every room by what its tests execute, `LEAST` at least. The same seed draws the same of one tree."""
    rng = random.Random(SEED)
    rooms: dict[str, list[Mutant]] = {}
    for file in sorted(executed):
        rooms.setdefault(room_of(file), []).extend(_of_file(tree, file, executed[file]))
    spare = COUNT - LEAST * len(rooms)
    whole = sum(map(len, rooms.values()))
    drawn: list[Mutant] = []
    for _, there in sorted(rooms.items()):
        drawn += _some(there, LEAST + round(spare * len(there) / whole), rng, tree, python)
    return drawn


def draw_of_room(tree: Path, files: Iterable[str], python: Path, count: int, seed: int) -> list[Mutant]:
    """Some of the files of a room, whether a test executes them or not."""
    there = [one for file in sorted(files) for one in _of_file(tree, file, None)]
    return _some(there, count, random.Random(seed), tree, python)


def _of_file(tree: Path, file: str, executed: set[int] | None) -> Iterator[Mutant]:
    for place in places((tree / file).read_text(encoding="utf-8")):
        if executed is None or place.line in executed:
            yield Mutant(file=file, **dataclasses.asdict(place.change))


def _some(there: list[Mutant], count: int, rng: random.Random, tree: Path, python: Path) -> list[Mutant]:
    """So many, one of a function at most."""
    rng.shuffle(there)
    drawn: dict[tuple[str, str], Mutant] = {}
    for mutant in there:
        if len(drawn) == count:
            break
        if (mutant.file, mutant.function) not in drawn and _imports(tree, mutant, python):
            drawn[mutant.file, mutant.function] = mutant
    return [*drawn.values()]


def _imports(tree: Path, mutant: Mutant, python: Path) -> bool:
    """Whether the module with the change can be imported: one that cannot, every test finds."""
    path = tree / mutant.file
    source = path.read_text(encoding="utf-8")
    changed = planted(source, mutant.change)
    if changed is None:
        return False
    name = mutant.file.removeprefix("agents/").removeprefix("drivers/").removesuffix(".py").removesuffix("/__init__")
    path.write_text(changed, encoding="utf-8")
    try:
        tried = subprocess.run(
            [str(python), "-B", "-c", f"import importlib; importlib.import_module({name.replace('/', '.')!r})"],
            cwd=tree, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        path.write_text(source, encoding="utf-8")
    return tried.returncode == 0
