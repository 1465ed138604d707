"""Interlocks of ports: their state as the testbed file has it, and pairs that it forbids."""

from collections.abc import Iterable, Iterator, Mapping

from hwd.fabric.graph import at_switch
from hwd.model.interlock import Interlock, InterlockName, InterlockRules, InterlockState
from hwd.model.link import RoutedLink, SwitchCrossconnect
from hwd.model.testbed import PortNote
from hwd_drivers.core.values import FibreEnd, natural_key


def port_state(
    crossconnects: Iterable[SwitchCrossconnect], set_aside: Mapping[FibreEnd, PortNote]
) -> Iterator[Interlock]:
    """One for each port that is used and set aside; one for all where none is. A port may be that of a composite."""
    used = {at_switch(one.switch, end) for one in crossconnects for end in one.crossconnect.ends}
    notes = {f"{note.switch}.{note.port}": note for end in used if (note := set_aside.get(end)) is not None}
    for port in sorted(notes, key=natural_key):
        yield Interlock(
            name=InterlockName.PORT_STATE,
            subject=port,
            figure=1,
            limit=0,
            unit="ports",
            state=InterlockState.REFUSED,
            why=f"it is set aside ({notes[port]}). Use another port, or set its state to normal under `ports`",
        )
    if not notes and used:
        ports = {(end.owner, end.port) for end in used}
        yield Interlock(
            name=InterlockName.PORT_STATE,
            subject=f"{len(ports)} switch ports",
            figure=0,
            limit=0,
            unit="ports",
            state=InterlockState.HOLDS,
        )


def forbidden_pairs(
    links: Iterable[RoutedLink], crossconnects: Iterable[SwitchCrossconnect], rules: InterlockRules
) -> Iterator[Interlock]:
    """One for each forbidden pair that is joined; one for all where none is. None where nothing is forbidden."""
    found = {
        str(link): rules.forbidden_ports[ends]
        for link in links
        if (ends := frozenset(link.link.ends)) in rules.forbidden_ports
    }
    for one in crossconnects:
        if (key := (one.switch, one.crossconnect)) in rules.forbidden_crossconnects:
            found[str(one)] = rules.forbidden_crossconnects[key]
    for pair in sorted(found, key=natural_key):
        yield Interlock(
            name=InterlockName.FORBIDDEN_PAIR,
            subject=pair,
            figure=1,
            limit=0,
            unit="pairs",
            state=InterlockState.REFUSED,
            why=f"the testbed file forbids it{f' ({found[pair]})' if found[pair] else ''}. Ask for another pair",
        )
    if not found and (forbidden := len(rules.forbidden_ports) + len(rules.forbidden_crossconnects)):
        yield Interlock(
            name=InterlockName.FORBIDDEN_PAIR,
            subject=f"{forbidden} forbidden pairs",
            figure=0,
            limit=0,
            unit="pairs",
            state=InterlockState.HOLDS,
        )
