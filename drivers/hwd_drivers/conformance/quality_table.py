"""The table of drivers and their quality, in Markdown, and its place in a page."""

import collections
from collections.abc import Iterable, Mapping
from typing import Final

from hwd_drivers.conformance.quality import QUALITIES, Outcome, Quality, Result, quality, short_of
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices.registry import DriverSpec

BEGIN: Final = "<!-- quality: written by `hwd driver check --all --write` -->"
END: Final = "<!-- end of quality -->"
HEAD: Final = ("driver", "models", "quality", "evidence", "checks", "what keeps it from the next")


def row(spec: DriverSpec, results: Iterable[Result]) -> tuple[str, ...]:
    """The cells of one driver."""
    known = list(results)
    reached = quality(known)
    models = ", ".join(f"{model} {spec.sizes[model]}" if model in spec.sizes else model for model in spec.models)
    return f"`{spec.name}`", models, reached.value, spec.evidence.value, _counted(known), _missing(reached, known)


def filled(page: str, rows: Iterable[tuple[str, ...]], *, known: Iterable[str]) -> str:
    """The page with these rows in its table. Rows of other `known` drivers stay, those of unknown ones are removed.

    Raises ConfigError where the page has no place for the table.
    """
    head, found, rest = page.partition(BEGIN)
    inside, closed, tail = rest.partition(END)
    if not found or not closed:
        raise ConfigError(f"the page has no place for the table: it lacks the line {END if found else BEGIN}")
    cells = {each[0]: each for each in (_cells(line) for line in inside.splitlines() if line.startswith("| `"))}
    cells |= {each[0]: each for each in rows}
    kept = [cells[f"`{name}`"] for name in sorted(known) if f"`{name}`" in cells]
    table = "\n".join(_line(each) for each in (HEAD, ("---",) * len(HEAD), *kept))
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}"


def rows_of(page: str) -> Mapping[str, tuple[str, ...]]:
    """Cells of the table in a page, by driver."""
    inside = page.partition(BEGIN)[2].partition(END)[0]
    cells = [_cells(line) for line in inside.splitlines() if line.startswith("| `")]
    return {each[0].strip("`"): each for each in cells}


def _counted(results: list[Result]) -> str:
    """`78 of 78 passed; no attenuation, override`"""
    done = [result for result in results if result.way is not None]
    passed = sum(result.outcome is Outcome.PASSED for result in done)
    tried = passed + sum(result.outcome is Outcome.FAILED for result in done)
    ways = collections.defaultdict(set)
    for result in done:
        ways[result.check].add(result.outcome)
    left_out = sorted(check for check, outcomes in ways.items() if outcomes == {Outcome.NOT_APPLICABLE})
    return f"{passed} of {tried} passed" + (f"; not applicable: {', '.join(map(_words, left_out))}" if left_out else "")


def _missing(reached: Quality, results: list[Result]) -> str:
    following = QUALITIES[QUALITIES.index(reached) + 1 :]
    if not following:
        return ""
    short = sorted({_words(result.check) for result in short_of(following[0], results)})
    return f"{following[0]}: {', '.join(short)}" if short else ""


def _words(check: str) -> str:
    return check.replace("_", " ")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
