"""Interlocks of ports: their state as the testbed file has it, pairs that it forbids, and transfers in flight there."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from hwd.fabric.graph import at_switch
from hwd.model.circuit import RoutedLink
from hwd.model.interlock import Interlock, InterlockName, InterlockRules, InterlockState
from hwd.model.plural import plural
from hwd.model.testbed import PortNote
from hwd_drivers.core.values import Crossconnect, FibreEnd, natural_key


def port_state(
    crossconnects: Mapping[str, Collection[Crossconnect]], set_aside: Mapping[FibreEnd, PortNote]
) -> Iterator[Interlock]:
    """Check the state of ports: an interlock for each port that is used and set aside, or for all where none is. A port
    may be that of a composite.
    """
    notes: dict[str, PortNote] = {}
    for switch in crossconnects.keys() & {end.owner for end in set_aside}:
        for end in {end for one in crossconnects[switch] for end in one.ends}:
            if (note := set_aside.get(at_switch(switch, end))) is not None:
                notes[f"{note.switch}.{note.port}"] = note
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
    if not notes and (count := sum(map(len, crossconnects.values()))):
        yield _none(InterlockName.PORT_STATE, plural(count, "crossconnect"), "ports")


def forbidden_pairs(
    links: Iterable[RoutedLink], crossconnects: Mapping[str, Collection[Crossconnect]], rules: InterlockRules
) -> Iterator[Interlock]:
    """Check forbidden pairs: an interlock for each that is joined, or for all where none is. None where nothing is
    forbidden.
    """
    if not (rules.forbidden_ports or rules.forbidden_crossconnects):
        return
    found = {
        str(link): rules.forbidden_ports[ends]
        for link in links
        if (ends := frozenset(link.link.ends)) in rules.forbidden_ports
    }
    for (switch, one), why in rules.forbidden_crossconnects.items():
        if one in crossconnects.get(switch, ()):
            found[f"{switch}:{one}"] = why
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
    if not found:
        count = len(rules.forbidden_ports) + len(rules.forbidden_crossconnects)
        yield _none(InterlockName.FORBIDDEN_PAIR, f"{count} forbidden pairs", "pairs")


def transfers_in_flight(found: Mapping[str, str], ports: int) -> Iterator[Interlock]:
    """Check that no process of a host is sending over a port that the plan moves: an interlock for each transfer there,
    by its name with its text, or for all `ports` where there is none. None where nothing moves.
    """
    for subject, why in found.items():
        yield Interlock(
            name=InterlockName.TRANSFER_IN_FLIGHT,
            subject=subject,
            figure=1,
            limit=0,
            unit="transfers",
            state=InterlockState.REFUSED,
            why=why,
        )
    if not found and ports:
        yield _none(InterlockName.TRANSFER_IN_FLIGHT, plural(ports, "port"), "transfers")


def _none(name: InterlockName, subject: str, unit: str) -> Interlock:
    return Interlock(name=name, subject=subject, figure=0, limit=0, unit=unit, state=InterlockState.HOLDS)
