"""Quality of a driver: bronze to platinum, from the results of its checks and from its other files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_drivers.conformance import BRONZE, GOLD, PLATINUM, SILVER, Check, checks_for
from hwd_drivers.transports.rough import Way


class Quality(StrEnum):
    """The quality level of a driver; each level includes all lower ones."""

    NONE = "none"
    """The driver does not reach bronze."""
    BRONZE = "bronze"
    """On a perfect connection: identity, capabilities, crossconnects made, removed and read, deadlines, refusals."""
    SILVER = "silver"
    """On every kind of connection (see `Way`): moves, parallel and abandoned exchanges, garbage, its claims."""
    GOLD = "gold"
    """Faults of the device, and light where it reports it; the driver has captures and a README."""
    PLATINUM = "platinum"
    """A change reports the state before it; and the checks passed on a real unit."""


QUALITIES: Final = tuple(Quality)
"""From the least to the most."""


class Outcome(StrEnum):
    """How one check ended."""

    PASSED = "passed"
    """The driver passed the check."""
    FAILED = "failed"
    """The text says what was found."""
    NOT_APPLICABLE = "not applicable"
    """The switch has nothing that could be checked so; the text says why."""
    MISSING = "missing"
    """A required file of the driver is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One check on one way, or one required file (without model and way). `needed_for`: the quality that needs it."""

    driver: str
    model: str
    check: str
    way: Way | None
    needed_for: Quality
    outcome: Outcome
    text: str = ""
    took_s: float = 0.0

    def __str__(self) -> str:
        on = f" {self.model} {self.way}" if self.way is not None else ""
        return f"{self.driver}{on} {self.check}: {self.outcome}{': ' if self.text else ''}{self.text}"


def needed_for(check: Check, way: Way) -> Quality:
    """The lowest quality that needs this check on this kind of connection."""
    if check in PLATINUM:
        return Quality.PLATINUM
    if check in GOLD:
        return Quality.GOLD
    if check in SILVER or way is not Way.WHOLE or check not in BRONZE:
        return Quality.SILVER
    return Quality.BRONZE


def cases(*, up_to: Quality = Quality.PLATINUM) -> tuple[tuple[Way, Check], ...]:
    """Every check on every way that `up_to` needs."""
    wanted = QUALITIES.index(up_to)
    return tuple(
        (way, check) for way in Way for check in checks_for(way) if QUALITIES.index(needed_for(check, way)) <= wanted
    )


def quality(results: Iterable[Result]) -> Quality:
    """The highest quality without a failed check or a missing file; NONE where nothing was checked."""
    known = list(results)
    reached = Quality.NONE
    for candidate in QUALITIES[1:]:
        needed = [result for result in known if result.needed_for is candidate]
        if not any(result.outcome is Outcome.PASSED for result in needed) or short_of(candidate, known):
            break
        reached = candidate
    return reached


def short_of(wanted: Quality, results: Iterable[Result]) -> Sequence[Result]:
    """What keeps a driver from a quality: failures, what is missing, and for platinum what does not apply."""
    bad = [Outcome.FAILED, Outcome.MISSING]
    if wanted is Quality.PLATINUM:
        bad.append(Outcome.NOT_APPLICABLE)
    return [result for result in results if result.needed_for is wanted and result.outcome in bad]
