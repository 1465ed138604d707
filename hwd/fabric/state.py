"""States of switches: what routed links need, what passes light, and which ports crossconnects use."""

from collections.abc import Iterable, Mapping

from hwd.model.circuit import Needed, RoutedLink
from hwd.model.link import SwitchCrossconnect, switch_crossconnect
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState

Carried = frozenset[Crossconnect] | tuple[Crossconnect | CrossconnectReading, ...]
State = Mapping[str, Carried]
"""Crossconnects by the name of their switch, as needed (`Needed`) or as read (`Observed`)."""

DARK = frozenset({CrossconnectState.BLOCKED, CrossconnectState.FAILED})
"""Set and without light until an operator acts; those that are tuning get light without that."""


def bare(one: Crossconnect | CrossconnectReading) -> Crossconnect:
    """The crossconnect of something that is carried, needed or read."""
    return one if isinstance(one, Crossconnect) else one.crossconnect


def needed(links: Iterable[RoutedLink]) -> Needed:
    """The crossconnects that these links need, by the name of the switch."""
    found: dict[str, set[Crossconnect]] = {}
    for link in links:
        for crossconnect in link.crossconnects:
            found.setdefault(crossconnect.switch, set()).add(crossconnect.crossconnect)
    return {switch: frozenset(found[switch]) for switch in sorted(found)}


def lighting(state: State) -> tuple[SwitchCrossconnect, ...]:
    """The crossconnects of a state that pass light, or will when their mirrors have settled."""
    return tuple(
        switch_crossconnect(switch, one if isinstance(one, Crossconnect) else one.crossconnect)
        for switch, crossconnects in state.items()
        for one in crossconnects
        if isinstance(one, Crossconnect) or one.state not in DARK
    )


def crossconnect_ports(crossconnects: Iterable[SwitchCrossconnect]) -> frozenset[str]:
    """Names of the switch ports, such as `ocs1.3`, that crossconnects use: the ports that are leased."""
    return frozenset(f"{one.switch}.{end.port}" for one in crossconnects for end in one.crossconnect.ends)
