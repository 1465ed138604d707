"""The plan of a campaign of crashes, drawn from a seed: how each life of the daemon ends, and what is asked in it."""

import random
from collections.abc import Iterator
from typing import Final

import msgspec

from hwd.testing.crashes.dying_daemon import Boundary

SWITCHES: Final = ("ocs1", "ocs2")
PATCHES: Final = ("1A-3B,3A-1B", "1A-4B,4A-1B", "2A-4B,4A-2B", "2A-3B,3A-2B", "5A-6B,6A-5B", "none")
"""What is asked of one switch: `none` empties it."""
WRITES_MOST: Final = 9
"""A life with four reconfigurations writes so often, and once more at the start, where nothing is refused."""
MORE_MOST: Final = 20
"""Applies after those of a life, until it dies. Each makes two writes, but where somebody's confirm is waited for."""
RANDOM_MOST_S: Final = 1.5
"""A life at work lasts about that long."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One apply, and what follows its answer. `with_next`: the next is asked at the same time."""

    id: str
    what: str
    confirm_within_s: float | None = None
    then: str = ""
    """confirm, roll-back, or nothing"""
    lease: bool = False
    """A lease of a port that no apply touches is taken before; every second one is released at once."""
    with_next: bool = False


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One life of the daemon. `boundary` None: SIGKILL after `after_s`, from its first sign of life on."""

    number: int
    boundary: Boundary | None
    at: int = 0
    part: float = 0.5
    after_s: float = 0.0
    asks: tuple[Ask, ...]

    def __str__(self) -> str:
        how = f"SIGKILL after {self.after_s:.3f} s" if self.boundary is None else f"{self.boundary} of write {self.at}"
        return f"life {self.number}: {how}; {', '.join(f'{ask.id} {ask.what}' for ask in self.asks)}"


def draw_lives(seed: int, kills: int) -> Iterator[Life]:
    """Draw the lives, the same for the same seed, whatever the number of kills."""
    draw = random.Random(seed)
    for number in range(kills):
        asks = tuple(_ask(draw, number, place) for place in range(4))
        if draw.random() < 0.25:
            yield Life(number=number, boundary=None, after_s=draw.uniform(0.0, RANDOM_MOST_S), asks=asks)
        else:
            yield Life(
                number=number,
                boundary=draw.choice([*Boundary]),
                at=draw.randint(1, WRITES_MOST),
                part=draw.random(),
                asks=asks,
            )


def more(life: int) -> Iterator[Ask]:
    """What is asked of a life that has not come to its write by its own applies: each moves light."""
    for place in range(MORE_MOST):
        yield Ask(id=f"c{life:05d}{place:02d}", what=f"{SWITCHES[0]}:7A-{'none' if place % 2 else '7B'}")


def _ask(draw: random.Random, life: int, place: int) -> Ask:
    some = draw.sample(SWITCHES, draw.randint(1, 2))
    confirm_within_s = draw.choice([None, None, 0.5, 2.0])
    return Ask(
        id=f"c{life:05d}{'abcd'[place]}x",
        what=" ".join(f"{switch}:{draw.choice(PATCHES)}" for switch in sorted(some)),
        confirm_within_s=confirm_within_s,
        then=draw.choice(["confirm", "confirm", "roll-back", ""]) if confirm_within_s else "",
        lease=draw.random() < 0.3,
        with_next=draw.random() < 0.2,
    )
