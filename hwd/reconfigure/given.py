"""What is given to a plan: the crossconnects of switches that hosts drive. A plan relies on them and never moves them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from hwd.model.link import SwitchCrossconnect
from hwd.model.state import Observed
from hwd.model.testbed import Switch, Testbed
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, FibreEnd, natural_key

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


def check_given(
    testbed: Testbed, wanted: Mapping[str, Iterable[Crossconnect]], given: Given, *, emptied: Collection[str]
) -> None:
    """`wanted` of switches of hosts; from those that are `emptied` something is to go.

    Raises RefusedError where one would have to move, with the commands that its host, and the others that must join in, have for it.
    """
    findings, asked = [], dict[str, list[str]]()
    for name in sorted(wanted, key=natural_key):
        switch = testbed.switches[name]
        finding, target = _finding(switch, sorted(wanted[name], key=Crossconnect.sort_key), given, name in emptied)
        if finding:
            findings.append(finding)
            asked.setdefault(str(switch.owner), []).append(f"{name}:{target}")
    if findings:
        commands = "; ".join(f"on {host}: hwd-agent select {' '.join(what)}" for host, what in asked.items())
        raise RefusedError(f"{'; '.join(findings)}. The daemon never drives a host's own switch. First {commands}")


def _finding(switch: Switch, wanted: Sequence[Crossconnect], given: Given, emptied: bool) -> tuple[str, str]:
    """Why what is wanted is not there, and what is to be selected; empty where it is."""
    theirs = f"{switch.name} belongs to host {switch.owner}"
    target = ",".join(map(str, wanted)) or "dark"
    if emptied:
        return f"{theirs}, and something would have to go from it", target
    if switch.name not in given:
        return f"{theirs}, and what it carries is not known now", target
    there = {one.crossconnect for one in given[switch.name]}
    if missing := [one for one in wanted if one not in there]:
        carries = ", ".join(sorted(map(str, there))) or "nothing"
        return f"{theirs}; it carries {carries}, and {missing[0]} is needed", target
    return "", ""
