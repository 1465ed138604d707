"""A switch for the engine: the mirror model of all twins, with what other clients and failures do to it."""

from collections.abc import Callable, Sequence

from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, Exchange
from hwd_drivers.switching.moves import SwitchMoves
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.timing import find_timing

from ...virtual_time import running_loop
from ..parts import capabilities, pairs, square


def readings(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> tuple[CrossconnectReading, ...]:
    return tuple(CrossconnectReading(crossconnect=one, state=state) for one in pairs(text))


def moves(
    *, remove: str = "", add: str = "", keep: str = "", before: str = "", failed: str = "", lasting: str = ""
) -> SwitchMoves:
    return SwitchMoves(
        switch="ocs1",
        remove=pairs(remove),
        add=pairs(add),
        keep=pairs(keep),
        before=pairs(before),
        failed=pairs(failed),
        lasting=pairs(lasting),
    )


class Switch:
    """A switch on the mirror model of all twins.

    It reports crossconnects in `failed` as failed until they are made again, those in `failing` always, and holds those
    in `dark` dark.
    """

    def __init__(self, text: str = "", timing: str = "ideal") -> None:
        self.mirror = Mirror(
            name="ocs1",
            capabilities=capabilities(square(8), reciprocal=False, latching=True),
            timing=find_timing(timing),
            draws=Draws(1),
        )
        self.mirror.connect(pairs(text), self.now_ns(), move=False)
        self.failed: set[Crossconnect] = set()
        self.failing: set[Crossconnect] = set()
        self.dark: set[Crossconnect] = set()
        self.meanwhile: Callable[[], object] = lambda: None
        """What another client does just before the next change comes in."""
        self.changes = 0
        self.reads = 0
        self.deadlines_s: list[float] = []

    @property
    def latest(self) -> tuple[CrossconnectReading, ...]:
        return tuple(
            CrossconnectReading(crossconnect=one.crossconnect, state=CrossconnectState.FAILED)
            if one.crossconnect in self.failed | self.failing
            else CrossconnectReading(crossconnect=one.crossconnect, state=CrossconnectState.BLOCKED)
            if one.crossconnect in self.dark
            else one
            for one in self.mirror.readings(self.now_ns())
        )

    async def read(self) -> tuple[CrossconnectReading, ...]:
        self.reads += 1
        return self.latest

    async def change(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None,
    ) -> Exchange:
        self.changes += 1
        self.deadlines_s.append(deadline_s)
        if on_commanded is not None:
            on_commanded(self.now_ns())
        self.meanwhile()
        before = tuple(self.mirror.crossconnects())
        self.mirror.disconnect(remove, self.now_ns())
        self.failed.difference_update(remove)
        self.mirror.connect(add, self.now_ns(), move=True)
        return Exchange(commanded_ns=self.now_ns(), acknowledged_ns=self.now_ns(), commands=1, before=before)

    def now_ns(self) -> int:
        return running_loop().time_ns()
