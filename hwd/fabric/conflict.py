"""A conflict: the smallest set of demands that cannot be met at once, and the error that explains it.

Every set of demands that can be met at once leaves some out, and a conflict contains one of those left out by each: the
smallest conflict is the smallest set that hits all these left-out sets (implicit hitting sets; Ignatiev and others,
"Smallest MUS extraction with minimal hitting set dualization", CP 2015).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hwd.fabric.composite_parts import CompositeParts
from hwd.fabric.partial_paths import Effort, ExhaustedError, PathProblem
from hwd.fabric.search import Search
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect

PAIR = 2
PART_STEPS = 8
"""The initial cost of a search for each part, in its steps."""
NAMED_MAX = 6
"""Parts named in a message; nobody reads more."""


class ConflictError(RefusedError):
    """Demands that cannot be met at once: the smallest set of them."""

    def __init__(self, message: str, demands: tuple[Crossconnect, ...]) -> None:
        super().__init__(message)
        self.demands = demands


def conflict_of(given: PathProblem, wanted: tuple[Crossconnect, ...], effort: Effort) -> ConflictError:
    """The error of a problem that has no solution. `wanted`: its demands, in their order."""
    places, smallest = smallest_conflict(given, effort)
    demands = tuple(wanted[place] for place in places)
    name = given.inside.composite.name
    names = ", ".join(demands)
    if not demands:
        return ConflictError(
            f"{name}: the crossconnects that are needed of its elements contradict each other; "
            "each element is in one state at a time",
            demands,
        )
    if len(demands) == 1:
        text = f"cannot make {names}: the crossconnects needed of its elements, and their states, leave no path"
    else:
        meet = _meet(given.inside, [given.demands[place] for place in places])
        remedy = "each element is in one state, each fibre end in one path. Ask for one of them less"
        text = f"cannot make {names} at once{meet}; {remedy}"
    more = "" if smallest else ". Whether fewer of them conflict already was not settled in time"
    return ConflictError(f"{name}: {text}{more}", demands)


def smallest_conflict(given: PathProblem, effort: Effort) -> tuple[tuple[int, ...], bool]:
    """Indices of demands that cannot be met at once, and whether no smaller set conflicts. The whole problem must
    conflict.

    Where `effort` does not suffice, the set is a conflict, the smallest that was found by then.
    """
    smallest = tuple(range(len(given.demands)))
    left_out: list[frozenset[int]] = []
    try:
        for place in smallest:
            if not _fits(given, (place,), effort):
                return (place,), True
        for smaller in _shrinking(given, smallest, effort):
            smallest = smaller
            if len(smallest) == PAIR:  # no demand conflicts alone
                return smallest, True
        while True:
            chosen = _hitting(left_out, len(smallest), effort)
            if chosen is None:  # there is no smaller one
                return smallest, True
            if not _fits(given, chosen, effort):
                return tuple(sorted(chosen)), True
            together = _grown(given, chosen, effort)
            left_out.append(frozenset(range(len(given.demands))) - together)
    except ExhaustedError:
        return smallest, False


def _meet(inside: CompositeParts, demands: Iterable[tuple[int, int]]) -> str:
    """Parts that more than one of these demands could use."""
    met: dict[int, int] = {}
    for head, tail in demands:
        parts = {
            inside.part_of[entry]
            for entry in range(len(inside.ends))
            if (
                entry == head
                or (inside.sources.get(entry, -1) >= 0 and inside.reach[head] >> inside.sources[entry] & 1)
            )
            and inside.reach[entry] >> tail & 1
        }
        for part in parts:
            met[part] = met.get(part, 0) + 1
    most = max(met.values(), default=0)
    names = [str(inside.parts[part]) for part, times in sorted(met.items()) if times == most > 1]
    if not names:
        return ""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f": they meet in {', '.join(names[:NAMED_MAX])}{more}"


def _fits(given: PathProblem, places: Iterable[int], effort: Effort) -> bool:
    chosen = sorted(places)
    part = replace(
        given,
        demands=tuple(given.demands[place] for place in chosen),
        fixed={chosen.index(place): way for place, way in given.fixed.items() if place in chosen},
    )
    effort.spend(PART_STEPS * len(given.inside.parts))
    return Search(part, effort).feasible() is not None


def _shrinking(given: PathProblem, places: Sequence[int], effort: Effort) -> Iterator[tuple[int, ...]]:
    """Smaller and smaller conflicts, down to one from which no demand can be left out: parts are dropped while the rest
    conflicts, large ones first.
    """
    kept = list(places)
    size = len(kept) // 2
    while size >= 1:
        start = 0
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if _fits(given, rest, effort):
                start += size
            else:
                kept = rest
                yield tuple(kept)
        size //= 2


def _grown(given: PathProblem, places: frozenset[int], effort: Effort) -> frozenset[int]:
    """A maximal set of demands that can be met at once, with these among them."""
    together = set(places)
    for place in range(len(given.demands)):
        if place not in together and _fits(given, together | {place}, effort):
            together.add(place)
    return frozenset(together)


def _hitting(sets: Sequence[frozenset[int]], below: int, effort: Effort) -> frozenset[int] | None:
    """The smallest set that has one of each of `sets`; None where it has `below` members at least."""
    for size in range(below):
        if (found := _hit(sets, frozenset(), size, effort)) is not None:
            return found
    return None


def _hit(sets: Sequence[frozenset[int]], chosen: frozenset[int], more: int, effort: Effort) -> frozenset[int] | None:
    effort.spend(len(sets) + 1)
    missed = min((one for one in sets if not one & chosen), key=len, default=None)
    if missed is None:
        return chosen
    if more == 0:
        return None
    found = (_hit(sets, chosen | {place}, more - 1, effort) for place in sorted(missed))
    return next((one for one in found if one is not None), None)
