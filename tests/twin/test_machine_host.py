"""A host of a rack that is a virtual machine: what is simulated of it, and what is its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from hwd.model.fault import parse_fault
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd.twin.faults.rack_faults import RackFaults
from hwd.twin.nic import What
from hwd.twin.rack import TwinRack
from hwd.twin.truth import Truth
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

MakeTestbed = Callable[..., Testbed]
MACHINE = """
  h8:
    twin: {machine: 10.0.2.2}
    nics: {eth0: {rdma: rxe0, module: 100g-lr4}}
"""
FIBRE = "  - h8.eth0 <-> ocs1.9"
LINK = (Crossconnect.parse("1A-9B"), Crossconnect.parse("9A-1B"))


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
def testbed(make_testbed: MakeTestbed) -> Testbed:
    return make_testbed(kernel=True, hosts=MACHINE, extra=FIBRE)


@asynccontextmanager
async def up(testbed: Testbed, truths: list[Truth], kernel: Cables | None) -> AsyncIterator[tuple[TwinRack, Clock]]:
    """A rack, and its clock."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = VirtualClock(loop, wall_start_ns=1_700_000_000 * 10**9)
    rack = TwinRack(
        testbed,
        dialer=MemoryDialer(MemoryNet()),
        clock=clock,
        ids=SeededIds(1),
        places=lambda name: f"mem:{name}",
        truth=truths.append,
        kernel=kernel,
    )
    await rack.start()
    yield rack, clock
    await rack.close()


def test_its_links_packets_and_rdma_are_its_own_and_its_cable_is_told_when_that_was_answered(testbed: Testbed) -> None:
    async def main() -> None:
        cables = Cables()
        truths: list[Truth] = []
        async with up(testbed, truths, cables) as (rack, clock):
            assert set(rack.hosts["h8"].notes) == {"module", "phy"}
            assert rack.hosts["h8"].file("class/infiniband/rxe0/ports/1/state") is None
            assert rack.hosts["h8"].links() == []
            rack.switches["ocs1"].mirror.connect(LINK, clock.monotonic_ns(), move=False)
            await asyncio.sleep(1)
        assert set(cables.set[-2:]) == {("h0.eth0", True), ("h8.eth0", True)}
        told = [(truth.what, truth.before_ns, truth.after_ns) for truth in truths if truth.port.host == "h8"]
        assert (What.CARRIER, 1, 2) in told
        assert What.RDMA not in [what for what, *_ in told]

    run_virtual(main())


def test_without_a_kernel_it_is_in_the_racks_process_as_others(testbed: Testbed) -> None:
    async def main() -> None:
        async with up(testbed, [], None) as (rack, _clock):
            assert set(rack.hosts["h8"].notes) == {"module", "phy", "file", "link", "datagrams"}

    run_virtual(main())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"host": "h8", "fault": "agent-killed"}, "h8: its agent runs in a virtual machine: kill it there"),
        ({"host": "h8", "fault": "clock-step", "seconds": 5}, "h8: it is a virtual machine with a clock of its own"),
    ],
    ids=["agent", "clock"],
)
def test_what_cannot_be_done_to_it_from_outside_is_refused(
    testbed: Testbed, fault: dict[str, object], words: str
) -> None:
    async def main() -> None:
        async with up(testbed, [], Cables()) as (rack, _clock):
            with pytest.raises(RefusedError, match=words):
                RackFaults(rack, kill_agent=lambda host: None).set(parse_fault(fault))

    run_virtual(main())
