"""Finds the far end of a port that has come up by the settings of its own switches, whatever the switches of other
hosts report.
"""

from collections.abc import Collection

from hwd.fabric.fabric import Fabric
from hwd.fabric.link_router import LinkWays
from hwd.fabric.state import State, bare
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.values import FibreEnd


def state_with_link(fabric: Fabric, port: NicPortId, state: State, free: Collection[str]) -> State:
    """`state`, with the crossconnects that the switches of `free` must have for the only link that `port` can be in.

    Unchanged where there is no such link, or more than one. A carrier proves that light passes both ways: the far end's
    switches had these crossconnects, even where they have not been reported yet.
    """
    known = {name: {bare(one) for one in found} for name, found in state.items() if name not in free}
    closed: dict[FibreEnd, str] = {}
    for name, switch in fabric.testbed.switches.items():
        used = {end for one in known.get(name, ()) for end in one.ends}
        if name not in free:
            ends = [end for end in switch.capabilities.ends if end not in used]
            closed |= {FibreEnd(owner=name, port=end.port, side=end.side): "it is not so" for end in ends}
    there = {SwitchCrossconnect(switch=name, crossconnect=one) for name, found in known.items() for one in found}
    ways = [
        way
        for other in fabric.optical_ports()
        if other.id != port and (way := _way(fabric, Link.of(port, other.id), closed)) is not None
        if all(one in there for one in way.crossconnects if one.switch not in free)
    ]
    completed = {name: {bare(one) for one in found} for name, found in state.items()}
    if len(ways) == 1:
        for one in ways[0].crossconnects:
            if one.switch in free:
                taken = set(one.crossconnect.ends)
                stays = {other for other in completed.get(one.switch, ()) if not taken.intersection(other.ends)}
                completed[one.switch] = stays | {one.crossconnect}
    return {name: frozenset(found) for name, found in completed.items()}


def _way(fabric: Fabric, link: Link, closed: dict[FibreEnd, str]) -> LinkWays | None:
    try:
        return fabric.router.ways([link], closed=closed, set_aside=False)[0]
    except HwdError:
        return None  # that is the answer: no light reaches it
