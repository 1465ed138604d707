"""What is read of NICs, from played hosts: seldom, not while a port is observed, and nothing that is not known."""

import asyncio

from hwd_agents.process.config import PortConfig
from hwd_agents.watchers.nics import EVERY_S, Nics
from hwd_agents.wire import FecNote, NicNote
from hwd_drivers.core.documents import Json

from ..conftest import Stage

FEC: Json = {"auto": False, "modes": ["rs"]}


class Watched:
    """The NICs of `h0`: eth0 is told of, eth1 has no settings, eth9 is not there."""

    def __init__(self, one: Stage) -> None:
        self.host = one.hosts["h0"]
        self.set(autoneg=True)
        self.busy = False
        self.changes = 0
        ports = {name: PortConfig(interface=name) for name in ("eth0", "eth1", "eth9")}
        self.nics = Nics(ports, one.sources["h0"], busy=lambda: self.busy, on_change=self.change)
        one.run(self.nics)

    def set(self, *, autoneg: bool) -> None:
        """By hand, past the agent."""
        self.host.states["eth0", "autoneg", ""] = {
            "autoneg": autoneg,
            "speed": 100_000,
            "duplex": 1,
            "ours": "0",
            "bits": 0,
        }
        self.host.states["eth0", "fec", ""] = FEC

    def change(self) -> None:
        self.changes += 1


async def test_what_is_known_is_told_and_read_again_in_a_while_or_at_once_but_not_while_a_port_is_observed(
    one: Stage,
) -> None:
    one.hosts["h0"].plug("eth1")
    seen = Watched(one)
    await asyncio.sleep(1)
    eth0 = NicNote(autoneg=True, speed_mbps=100_000, fec=FecNote(auto=False, modes=["rs"]))
    assert seen.nics.read == {"eth0": eth0, "eth1": NicNote(), "eth9": NicNote()}
    assert seen.changes == 1
    seen.set(autoneg=False)
    await asyncio.sleep(EVERY_S)
    assert (seen.nics.read["eth0"].autoneg, seen.changes) == (False, 2)
    seen.set(autoneg=True)
    seen.nics.hurry()
    await asyncio.sleep(1)
    assert (seen.nics.read["eth0"].autoneg, seen.changes) == (True, 3)
    seen.busy = True
    seen.set(autoneg=False)
    seen.nics.hurry()
    await asyncio.sleep(3 * EVERY_S)
    assert (seen.nics.read["eth0"].autoneg, seen.changes) == (True, 3)
    seen.busy = False
    await asyncio.sleep(EVERY_S)
    assert seen.nics.read["eth0"].autoneg is False
