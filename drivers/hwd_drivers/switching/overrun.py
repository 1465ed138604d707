"""Overrun: what a change of ours took from another client of the switch."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from hwd_drivers.core.values import Crossconnect, Exchange
from hwd_drivers.switching.moves import SwitchMoves


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """The loss of what another client made on a switch between our last read and our write, by that write.

    `lost`: its crossconnects. `window_s`: from the end of our last read to the first byte of the change.

    No switch that moves ports in use can prevent it. A driver whose protocol can sends `read; change` in one write
    (`Exchange.before`), so that it is known afterwards what was lost; with other drivers it stays unknown.
    """

    switch: str
    lost: tuple[Crossconnect, ...]
    window_s: float

    def __str__(self) -> str:
        lost = ",".join(self.lost)
        return (
            f"{self.switch}: overrun: {lost} of another client came in the {self.window_s * 1e3:.1f} ms "
            "between our read and our write, and is lost to it. "
            f"Tell its owner; `hwd apply {self.switch}:{lost}` makes it anew once its ends are free"
        )


class OverrunWatch:
    """Watches one change of one switch, and calls `on_overrun` at most once. Close it after the last read."""

    def __init__(self, switch: str, on_overrun: Callable[[Overrun], None]) -> None:
        self.lost: tuple[Crossconnect, ...] = ()
        self._switch = switch
        self._on_overrun = on_overrun
        self._taken: tuple[Crossconnect, ...] = ()
        self._window_s = 0.0

    def changed(self, move: SwitchMoves, exchange: Exchange, *, read_ns: int) -> None:
        """`read_ns`: the end of the read on which `move` is based."""
        self._taken = taken_crossconnects(move, exchange)
        self._window_s = (exchange.commanded_ns - read_ns) / 1e9

    def read_back(self, there: Collection[Crossconnect]) -> None:
        """Crossconnects that were taken and are not there are lost."""
        self._tell(tuple(one for one in self._taken if one not in there))

    def close(self) -> None:
        """Crossconnects that were taken and never read back count as lost."""
        self._tell(self._taken)

    def _tell(self, lost: tuple[Crossconnect, ...]) -> None:
        self._taken = ()
        if lost:
            self.lost = lost
            self._on_overrun(Overrun(switch=self._switch, lost=lost, window_s=self._window_s))


def taken_crossconnects(move: SwitchMoves, exchange: Exchange) -> tuple[Crossconnect, ...]:
    """Crossconnects at the ends of `move` when the switch took it that were neither planned for nor wanted.

    Other changes of ours are never among them: no two reconfigurations of ours have a port in common.
    """
    if not exchange.before:
        return ()
    ends = {end for one in (*move.remove, *move.add) for end in one.ends}
    known = {*move.before, *move.add}
    return tuple(one for one in exchange.before if one not in known and not ends.isdisjoint(one.ends))
