"""The strongest light that can enter a switch at one of its ends: of the whole fibre, all its lanes together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hwd.fabric.light import Trace
from hwd.model.testbed import Module, Testbed
from hwd_drivers.core.values import FibreEnd, Side, sum_dbm


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPower:
    """The power into an end, at the greatest stated transmit power and typical losses; None where none is stated.

    `sources`: the transmitters whose light it is. Makers do not state the least loss, so the typical one counts.
    """

    power_dbm: float | None
    sources: tuple[FibreEnd, ...]


class InputPowers:
    """Holds what the modules of one testbed send."""

    def __init__(self, testbed: Testbed) -> None:
        self._modules: Mapping[FibreEnd, Module] = {
            end: port.module for port in testbed.ports() for end in port.ends(Side.TX)
        }

    def of(self, traces: Iterable[Trace]) -> InputPower:
        """The power of the light that enters at an end."""
        found = tuple(traces)
        sources = tuple(dict.fromkeys(trace.source for trace in found))
        powers_dbm: list[float] = []
        for trace in found:
            if (module := self._modules.get(trace.source)) is None:
                return InputPower(power_dbm=None, sources=sources)
            lanes = 1 if module.parallel else module.lanes
            powers_dbm += [module.tx_max_dbm - trace.loss_db] * lanes
        return InputPower(power_dbm=sum_dbm(*powers_dbm), sources=sources)
