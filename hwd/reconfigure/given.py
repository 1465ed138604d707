"""What is given to a plan: the crossconnects of switches that hosts drive. A plan relies on them and never moves them."""

from collections.abc import Iterable, Mapping

from hwd.model.link import SwitchCrossconnect
from hwd.model.state import Observed
from hwd.model.testbed import Switch, Testbed
from hwd_drivers.kit.errors import RefusedError
from hwd_drivers.kit.values import Crossconnect, CrossconnectReading, FibreEnd

Given = Mapping[str, tuple[CrossconnectReading, ...]]
"""By switch, as its host's agent reported it last; one of which nobody can tell now is not there."""


def readings_of(given: Given) -> Observed:
    return dict(given)


def standing(given: Given) -> frozenset[SwitchCrossconnect]:
    """All that is there."""
    return frozenset(
        SwitchCrossconnect(switch=name, crossconnect=one.crossconnect) for name, found in given.items() for one in found
    )


def closed_ends(testbed: Testbed, given: Given) -> dict[FibreEnd, str]:
    """Ends of the switches of hosts that no crossconnect is at, with the reason; of one whose state nobody knows, all."""
    closed = {}
    for name, switch in testbed.switches.items():
        if switch.owner is None:
            continue
        used = {end for one in given.get(name, ()) for end in one.crossconnect.ends}
        for end in switch.capabilities.ends:
            if end not in used:
                closed[FibreEnd(owner=name, port=end.port, side=end.side)] = (
                    f"host {switch.owner} has not set {name} so"
                )
    return closed


def check_given(switch: Switch, wanted: Iterable[Crossconnect], given: Given, *, emptied: bool) -> None:
    """`emptied`: something is to go from it. Raises RefusedError where the switch of a host would have to move, with the command that the host has for it."""
    name, owner = switch.name, switch.owner
    theirs = f"{name}: it belongs to host {owner}, which alone drives it"
    if emptied:
        raise RefusedError(f"{theirs}. On {owner}: hwd-agent select {name}:dark")
    wanted = sorted(wanted, key=Crossconnect.sort_key)
    asked = f"On {owner}: hwd-agent select {name}:{','.join(map(str, wanted))}"
    if name not in given:
        raise RefusedError(f"{theirs}, and what it carries is not known now. See `hwd status`. {asked}")
    there = {one.crossconnect for one in given[name]}
    if missing := [one for one in wanted if one not in there]:
        carries = ", ".join(map(str, there)) or "nothing"
        raise RefusedError(f"{theirs}. It carries {carries}, and {missing[0]} is needed. {asked}")
