"""`make mutants`: plant each mutant of the list, and see whether a test finds it.

The test that found it before runs first, then those of its own room, then all that execute its line: by a recording
that is made once, when it is needed, and anew by `--record`. What was hunted is kept in `.mutants/`, so that a run
which was ended goes on where it was.
"""

import argparse
import json
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from hwd_drivers.core.clock import SystemClock

from .changes import place_of
from .hunt import Tree
from .mutants import Mutant, draw, draw_of_room, read, room_of, tests_of_room, write
from .touched import SOURCES, Touched

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".mutants"
DONE = WORK / "hunted.jsonl"
CLOCK = SystemClock()
MARKERS = {"quick": "not slow", "slow": "slow"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--draw", action="store_true", help="draw a new list, by the seed in mutants.py")
    parser.add_argument("--record", action="store_true", help="record anew which test executes which line")
    parser.add_argument("--slow", action="store_true", help="the slow tests, for mutants that no quick one finds")
    parser.add_argument("--again", action="store_true", help="forget what was hunted before")
    parser.add_argument("--only", metavar="TEXT", default="", help="mutants whose line in the list has this text")
    parser.add_argument(
        "--room", help="hwd/jobs, agents/bus: mutants drawn in this room, planted here, against its own quick tests"
    )
    parser.add_argument("--count", type=int, default=20, metavar="N", help="so many with --room")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the draw with --room")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    options = parser.parse_args()
    if options.room:
        return of_room(ROOT, options.room, options.count, options.seed)
    say(f"{options.workers} trees with environments of their own, in {WORK.name}/")
    trees = [Tree(WORK / f"tree-{number}") for number in range(options.workers)]
    for tree in trees:
        tree.make(ROOT)
    kind = "slow" if options.slow else "quick"
    touched = Touched(WORK / kind, trees[0].folder)
    if options.record or options.draw:
        _record(touched, kind)
    if options.draw:
        mutants = draw(trees[0].folder, touched.executed(), trees[0].python)
        write(mutants)
        say(f"{len(mutants)} mutants drawn")
    if options.again or options.draw:
        DONE.unlink(missing_ok=True)
    mutants = [
        one for one in read() if options.only in str(one) and not (one.judged or (options.slow and one.found_by))
    ]
    hunted = _hunted()
    left = [one for one in mutants if f"{kind} {one}" not in hunted]
    say(f"{len(mutants)} mutants, {len(mutants) - len(left)} of them hunted before")
    if kind == "quick":
        say(f"{len(left)} by the test that found each before")
        left = _hunt_all(left, trees, kind, lambda tree, one: tree.hunt(one, [one.found_by], {}))
        say(f"{len(left)} by the tests of their rooms")
        left = _hunt_all(left, trees, kind, lambda tree, one: tree.hunt_in_folder(one, tests_of_room(one.room)))
    if left:
        if not touched.is_there():
            _record(touched, kind)
        seconds = touched.durations()
        lines = {str(one): _line(one, trees[0]) for one in left}
        tests = touched.tests_of({(one.file, line) for one in left if (line := lines[str(one)])})
        say(f"{len(left)} by all {kind} tests of their lines")
        left = _hunt_all(
            left, trees, kind, lambda tree, one: tree.hunt(one, tests.get((one.file, lines[str(one)]), ()), seconds)
        )
        for one in left:
            _keep(one, "", kind)
    return _verdict(mutants, kind)


def say(text: str) -> None:
    print(f"mutants: {text}", file=sys.stderr, flush=True)


def of_room(root: Path, room: str, count: int, seed: int) -> int:
    """Before and after a change of a room's tests: says which mutants they found before, and find no longer.

    Do not touch the room's sources meanwhile.
    """
    tree = Tree(root)
    files = [str(path.relative_to(root)) for top in SOURCES for path in (root / top).rglob("*.py")]
    of_files = {file: None for file in files if room_of(file) == room}
    mutants = draw_of_room(root, of_files, tree.python, count, seed)
    kept = WORK / f"room-{room.replace('/', '-')}-{seed}.json"
    before: dict[str, str] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    now: dict[str, str] = {}
    for number, mutant in enumerate(mutants, 1):
        by = tree.hunt_in_folder(mutant, tests_of_room(room))
        if by is not None:
            now[str(mutant)] = by
            say(f"{number} of {len(mutants)}: {mutant}: {by or 'NOT FOUND'}")
    lost = [name for name, by in now.items() if not by and before.get(name)]
    for name in lost:
        print(f"lost: {name} (found before by {before[name]})")
    for name, by in now.items():
        if not by and name not in lost:
            print(f"not found: {name}")
    if not before:
        WORK.mkdir(exist_ok=True)
        kept.write_text(json.dumps(now, indent=1), encoding="utf-8")
    say(
        f"{sum(map(bool, now.values()))} of {len(now)} found"
        + (f", {len(lost)} lost" if before else "; kept to compare")
    )
    return 1 if lost else 0


def _now_s() -> float:
    return CLOCK.monotonic_ns() / 1e9


def _record(touched: Touched, kind: str) -> None:
    began_s = _now_s()
    touched.record(MARKERS[kind], 3 if kind == "quick" else 2, say)
    say(f"recorded what the {kind} tests execute in {_now_s() - began_s:.0f} s")


def _hunt_all(
    mutants: list[Mutant], trees: list[Tree], kind: str, hunt: Callable[[Tree, Mutant], str | None]
) -> list[Mutant]:
    """Those that were not found."""
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for one in mutants:
        waiting.put(one)
    began_s, lock = _now_s(), threading.Lock()
    left: list[Mutant] = []

    def work(tree: Tree) -> None:
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            by = hunt(tree, mutant)
            with lock:
                if by == "":
                    left.append(mutant)
                else:
                    _keep(mutant, by, kind)
                done = len(mutants) - waiting.qsize() - len(trees) + 1
                verdict = "cannot be planted" if by is None else by or "not found"
                say(f"{done} of {len(mutants)}, {_now_s() - began_s:.0f} s: {mutant}: {verdict}")

    threads = [threading.Thread(target=work, args=[tree]) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return left


def _line(mutant: Mutant, tree: Tree) -> int:
    """Where the expression is now; 0 where it is no longer there."""
    place = place_of((tree.folder / mutant.file).read_text(encoding="utf-8"), mutant.change)
    return 0 if place is None else place.line


def _keep(mutant: Mutant, by: str | None, kind: str) -> None:
    with DONE.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"mutant": f"{kind} {mutant}", "by": by}) + "\n")


def _hunted() -> dict[str, str | None]:
    """Who found each mutant that was hunted; empty for nobody, None where it could not be planted."""
    if not DONE.is_file():
        return {}
    records = map(json.loads, DONE.read_text(encoding="utf-8").splitlines())
    return {record["mutant"]: record["by"] for record in records}


def _verdict(mutants: list[Mutant], kind: str) -> int:
    hunted = _hunted()
    listed = read()
    for one in listed:
        by = hunted.get(f"{kind} {one}")
        if by and not by.startswith("("):
            one.found_by = by
    write(listed)
    gone = [one for one in mutants if hunted.get(f"{kind} {one}", "") is None]
    unfound = [one for one in mutants if hunted.get(f"{kind} {one}", "") == ""]
    for one in gone:
        print(f"cannot be planted: {one}")
    for one in unfound:
        print(f"not found: {one}")
    say(f"{len(mutants)} mutants: {len(mutants) - len(gone) - len(unfound)} found, {len(unfound)} not found, "
        f"{len(gone)} cannot be planted")  # fmt: skip
    return 1 if gone or unfound else 0


if __name__ == "__main__":
    sys.exit(main())
