"""Desired and observed crossconnects: what routed links need, and how two states differ."""

from collections.abc import Iterable, Mapping

from hwd.model.link import RoutedLink, SwitchCrossconnect
from hwd.model.state import Desired, Difference, Observed
from hwd_drivers.core.errors import BugError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState

State = Mapping[str, Iterable[Crossconnect | CrossconnectReading]]
"""Crossconnects by the name of their switch, as wanted (`Desired`) or as read (`Observed`)."""

DARK = frozenset({CrossconnectState.BLOCKED, CrossconnectState.FAILED})
"""Set and without light until an operator acts; those that are tuning get light without that."""


def desired(links: Iterable[RoutedLink]) -> Desired:
    """The crossconnects that these links need, by the name of the switch."""
    found: dict[str, set[Crossconnect]] = {}
    for link in links:
        for crossconnect in link.crossconnects:
            found.setdefault(crossconnect.switch, set()).add(crossconnect.crossconnect)
    return {switch: frozenset(found[switch]) for switch in sorted(found)}


def difference(wanted: Desired, observed: Observed) -> tuple[Difference, ...]:
    """One entry for each switch that is not as wanted; a switch that is not named in `wanted` may have any
    crossconnects.

    A crossconnect that the switch reports as failed is missing where it is wanted and stale where it is not.
    """
    found = []
    for switch, crossconnects in wanted.items():
        if switch not in observed:
            raise BugError(f"difference: switch {switch} was not read")
        there = {reading.crossconnect for reading in observed[switch]}
        good = {reading.crossconnect for reading in observed[switch] if reading.state is not CrossconnectState.FAILED}
        entry = Difference(
            switch=switch,
            missing=tuple(sorted(crossconnects - good, key=Crossconnect.sort_key)),
            stale=tuple(sorted(there - crossconnects, key=Crossconnect.sort_key)),
        )
        if entry:
            found.append(entry)
    return tuple(found)


def lighting(state: State) -> tuple[SwitchCrossconnect, ...]:
    """The crossconnects of a state that pass light, or will when their mirrors have settled."""
    return tuple(
        SwitchCrossconnect(switch=switch, crossconnect=one if isinstance(one, Crossconnect) else one.crossconnect)
        for switch, crossconnects in state.items()
        for one in crossconnects
        if isinstance(one, Crossconnect) or one.state not in DARK
    )


def crossconnect_ports(crossconnects: Iterable[SwitchCrossconnect]) -> frozenset[str]:
    """Names of the switch ports, such as `ocs1.3`, that crossconnects use: the ports that are leased."""
    return frozenset(f"{one.switch}.{end.port}" for one in crossconnects for end in one.crossconnect.ends)
