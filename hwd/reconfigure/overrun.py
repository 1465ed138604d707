"""Overrun: what another client made on a switch between our last read and our write, and our write took away.

No switch that moves ports in use offers a way to shut that window. A driver whose protocol can sends `read; change` in one write (`Exchange.before`), so that it is known
afterwards what was taken; elsewhere nothing tells.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from hwd.model.plan import SwitchMoves
from hwd_drivers.core.documents import Json
from hwd_drivers.core.values import Crossconnect, Exchange

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """`lost`: crossconnects of others that our change took away. `window_s`: from the end of our last read of the switch to the first byte of the change."""

    switch: str
    lost: tuple[Crossconnect, ...]
    window_s: float

    def __str__(self) -> str:
        lost = ",".join(map(str, self.lost))
        return (
            f"{self.switch}: overrun: {lost} of another client came in the {self.window_s * 1e3:.1f} ms between our read and our write, and is lost to it. "
            f"Tell its owner; `hwd apply {self.switch}:{lost}` makes it anew once its ends are free"
        )

    def to_data(self) -> dict[str, Json]:
        return {"switch": self.switch, "lost": [*map(str, self.lost)], "window_s": self.window_s}


class Watch:
    """Watches one change of one switch, and calls `on_overrun` at most once. Close it when nothing more will be read."""

    def __init__(self, switch: str, on_overrun: Callable[[Overrun], None]) -> None:
        self.lost: tuple[Crossconnect, ...] = ()
        self._switch = switch
        self._on_overrun = on_overrun
        self._taken: tuple[Crossconnect, ...] = ()
        self._window_s = 0.0

    def changed(self, move: SwitchMoves, exchange: Exchange, *, read_ns: int) -> None:
        """`read_ns`: when the read ended that `move` was made from."""
        self._taken = taken(move, exchange)
        self._window_s = (exchange.commanded_ns - read_ns) / 1e9

    def read_back(self, there: Collection[Crossconnect]) -> None:
        """What was taken and is not there is lost."""
        self._tell(tuple(one for one in self._taken if one not in there))

    def close(self) -> None:
        """What was taken and never read back is taken for lost."""
        self._tell(self._taken)

    def _tell(self, lost: tuple[Crossconnect, ...]) -> None:
        self._taken = ()
        if lost:
            self.lost = lost
            self._on_overrun(Overrun(switch=self._switch, lost=lost, window_s=self._window_s))


def taken(move: SwitchMoves, exchange: Exchange) -> tuple[Crossconnect, ...]:
    """What stood at the ends that `move` drives when the switch took it, and was neither there when it was planned nor asked for.

    Changes of ours elsewhere on the switch are never in it: no two reconfigurations of ours have a port in common.
    """
    ends = {end for one in (*move.remove, *move.add) for end in one.ends}
    known = {*move.before, *move.add}
    return tuple(one for one in exchange.before or () if one not in known and not ends.isdisjoint(one.ends))


def unknown_overrun(switch: str, window_s: float) -> str:
    """A remark: what a change took that was sent and failed, and so told nothing of what there was before it."""
    return (
        f"{switch}: its change went out {window_s * 1e3:.1f} ms after our read, moved something and failed: "
        "whether it took what another client made in between is not known"
    )


def teller(
    tell: Callable[..., None], reconfiguration: str, remarks: list[str] | None = None
) -> Callable[[Overrun], None]:
    """Tells an overrun as a document of `reconfiguration`, in the log, and among its `remarks`."""

    def told(overrun: Overrun) -> None:
        log.warning("%s: %s", reconfiguration, overrun)
        if remarks is not None:
            remarks.append(str(overrun))
        tell("switch.overrun", reconfiguration=reconfiguration, **overrun.to_data())

    return told
