"""A host of a rack that is a virtual machine: what is simulated of it, and what is its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from hwd.model.nic_port import NicPortId
from hwd.twin.nic import What
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock

from .conftest import MakeTestbed, Scene, on_stage

MACHINE = """
  h8:
    twin: {machine: 10.0.2.2}
    nics: {eth0: {rdma: rxe0, module: 100g-lr4}}
"""
FIBRE = "  - h8.eth0 <-> ocs1.9"


class Cables:
    """The kernel's side, as a list."""

    def __init__(self) -> None:
        self.set: list[tuple[str, bool]] = []

    def light(self, receivers: Mapping[NicPortId, tuple[NicPortId, ...]]) -> None:
        self.set += [(f"{sender} to {', '.join(map(str, ids))}", True) for sender, ids in receivers.items()]

    def carrier(self, port: NicPortId, up: bool, told: Callable[[int, int], None]) -> None:
        self.set.append((str(port), up))
        told(1, 2)


@pytest.fixture
async def cables() -> Cables:
    return Cables()


@pytest.fixture
async def scene(make_testbed: MakeTestbed, clock: VirtualClock, cables: Cables | None) -> AsyncIterator[Scene]:
    testbed = make_testbed(kernel=True, hosts=MACHINE, extra=FIBRE)
    async with on_stage(testbed, MemoryDialer(MemoryNet()), clock, kernel=cables) as scene:
        yield scene


async def test_its_links_packets_and_rdma_are_its_own_and_its_cable_told_and_what_cannot_be_done_to_it_is_refused(
    scene: Scene, cables: Cables
) -> None:
    host = scene.rack.hosts["h8"]
    assert set(host.notes) == {"module", "phy"}
    assert host.file("class/infiniband/rxe0/ports/1/state") is None
    assert host.links() == []
    await scene.change("1A-9B", "9A-1B")
    await asyncio.sleep(1)
    assert set(cables.set[-2:]) == {("h0.eth0", True), ("h8.eth0", True)}
    told = [(truth.what, truth.before_ns, truth.after_ns) for truth in scene.truths if truth.port.host == "h8"]
    assert (What.CARRIER, 1, 2) in told
    assert What.RDMA not in [what for what, *_ in told]
    with pytest.raises(RefusedError, match="h8: its agent runs in a virtual machine: kill it there"):
        scene.fault(host="h8", fault="agent-killed")
    with pytest.raises(RefusedError, match="h8: it is a virtual machine with a clock of its own"):
        scene.fault(host="h8", fault="clock-step", seconds=5)


@pytest.mark.parametrize("cables", [None])
async def test_without_a_kernel_it_is_in_the_racks_process_as_others(scene: Scene) -> None:
    assert set(scene.rack.hosts["h8"].notes) == {"module", "phy", "file", "link", "datagrams"}
