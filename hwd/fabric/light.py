"""The light in a testbed for one state of the crossconnects: at each receiver, and at each switch end.

for trace in LightMap(testbed).traces({SwitchCrossconnect.parse("ocs1:1A-5B"): 0.9}):
    print(trace.source, "->", trace.end, trace.loss_db)
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from hwd.fabric.graph import Graph, Leg, at_switch, gives, takes
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import Testbed
from hwd_drivers.core.values import FibreEnd

CROSSINGS_MAX = 64
"""Light that crossed so many switches has no power left; this also ends closed rings of fibre."""

Onward = tuple[FibreEnd, SwitchCrossconnect, float]
"""The next step of light that enters a switch at some end: the end where it leaves, the crossconnect,
the loss in dB.
"""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The path of light from the transmitter `source` up to `end`, where it enters a device: `legs`, and
    `crossconnects` between them.
    """

    source: FibreEnd
    end: FibreEnd
    legs: tuple[Leg, ...]
    crossconnects: tuple[SwitchCrossconnect, ...]
    loss_db: float


class LightMap:
    """Traces light through one testbed; made once, used at each change."""

    def __init__(self, testbed: Testbed, graph: Graph | None = None) -> None:
        self._testbed = testbed
        self._graph = graph or Graph(testbed)
        self.sources = self._graph.sources
        """All transmitters that have a fibre."""
        self._crossings: dict[SwitchCrossconnect, tuple[tuple[FibreEnd, FibreEnd], ...]] = {}

    def traces(self, passing: Mapping[SwitchCrossconnect, float]) -> Iterator[Trace]:
        """Every device that light enters, transmitter by transmitter. `passing`: crossconnects that pass light now,
        with their loss in dB. Those that are tuning or blocked are left out.
        """
        joined: dict[FibreEnd, Onward] = {}
        for crossconnect, loss in passing.items():
            self.join(joined, crossconnect, loss)
        return self.follow(joined, self.sources)

    def crossings(self, crossconnect: SwitchCrossconnect) -> tuple[tuple[FibreEnd, FibreEnd], ...]:
        """Pairs of ends of a crossconnect: where light may enter the switch, and where it then leaves."""
        if (crossings := self._crossings.get(crossconnect)) is None:
            crossings = self._crossings[crossconnect] = tuple(self._crossings_of(crossconnect))
        return crossings

    def join(self, joined: dict[FibreEnd, Onward], crossconnect: SwitchCrossconnect, loss: float | None) -> None:
        """Enter into `joined` the next step of light at both ends of a crossconnect with this loss; None:
        it passes no light.
        """
        for into, out in self.crossings(crossconnect):
            if loss is not None:
                joined[into] = out, crossconnect, loss
            elif into in joined and joined[into][1] == crossconnect:
                del joined[into]

    def follow(self, joined: Mapping[FibreEnd, Onward], sources: Iterable[FibreEnd]) -> Iterator[Trace]:
        """Every device that the light of `sources` enters, by the steps in `joined`."""
        legs_of = self._graph.legs
        pending = [
            Trace(source=source, end=leg.end, legs=(leg,), crossconnects=(), loss_db=leg.loss_db)
            for source in sources
            for leg in legs_of.get(source, ())
        ][::-1]
        while pending:
            trace = pending.pop()
            yield trace
            onward = joined.get(trace.end)
            if onward is None or len(trace.crossconnects) >= CROSSINGS_MAX:
                continue
            out, crossconnect, loss = onward
            if any(leg.start == out for leg in trace.legs):
                continue
            for leg in legs_of.get(out, ()):
                pending.append(
                    Trace(
                        source=trace.source,
                        end=leg.end,
                        legs=(*trace.legs, leg),
                        crossconnects=(*trace.crossconnects, crossconnect),
                        loss_db=trace.loss_db + loss + leg.loss_db,
                    )
                )

    def _crossings_of(self, crossconnect: SwitchCrossconnect) -> Iterator[tuple[FibreEnd, FibreEnd]]:
        switch = self._testbed.switches[crossconnect.switch]
        a, b = crossconnect.crossconnect.ends
        at_a, at_b = at_switch(switch.name, a), at_switch(switch.name, b)
        if takes(switch, a) and gives(switch, b):
            yield at_a, at_b
        if takes(switch, b) and gives(switch, a):
            yield at_b, at_a
