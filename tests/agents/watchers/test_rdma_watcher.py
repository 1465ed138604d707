"""RDMA port state as polled from files: when it became active, and how often that is looked at."""

import asyncio

import pytest

from hwd_agents.probes.verbs_ports import VerbsPorts
from hwd_agents.process.config import PortConfig, SamplingConfig
from hwd_agents.sources.link_source import LinkReading, OperState, Origin
from hwd_agents.sources.verbs.verbs import PortEvent
from hwd_agents.watchers.flaps import Flaps
from hwd_agents.watchers.rdma_watcher import RdmaWatcher

from ..conftest import LATENCY_NS, MS, Ear, Stage
from ..probes.played_verbs import PlayedVerbs

LOOK_NS = 4 * LATENCY_NS
"""Two files, one after the other."""
STATE = "class/infiniband/mlx5_0/ports/1/state"
GID = "class/infiniband/mlx5_0/ports/1/gids/0"


class Watched:
    """An RDMA watcher on `h0`; the test sets the carrier, and the events of its device if there are `verbs`."""

    def __init__(
        self,
        one: Stage,
        *,
        device: str = "mlx5_0",
        ip: str | None = None,
        sampling: SamplingConfig | None = None,
        verbs: PlayedVerbs | None = None,
        late_ns: int = 0,
    ) -> None:
        files = one.sources["h0"].files
        assert files is not None
        self.ear = Ear()
        self.carrier: bool | None = False
        self.active: list[str] = []
        self.stage = one
        self.host = one.hosts["h0"]
        self._changes = 0
        ports = {"eth0": PortConfig(interface="eth0", rdma=device, ip=ip)}
        self.ports = None if verbs is None else VerbsPorts(ports, verbs, on_change=lambda: None)
        self.rdma = RdmaWatcher(
            "eth0",
            device,
            ports["eth0"].ip_address,
            files,
            one.clock,
            self.ear,
            carrier=lambda port: self.carrier,
            sampling=sampling or SamplingConfig(),
            on_active=self.active.append,
            verbs=self.ports,
            late_ns=lambda: late_ns,
        )
        if self.ports is not None:
            self.ports.on_event.append(lambda port, *event: self.rdma.take(*event))
            one.run(self.ports)
        one.run(self.rdma)

    def set_carrier(self, carrier: bool, *, flaps: int = 0) -> None:
        """After `flaps` more changes to and fro that nobody told one by one."""
        self._changes += (carrier != self.carrier) + 2 * flaps
        self.carrier = carrier
        self.rdma.carrier_changed(self._reading(carrier))

    def _reading(self, carrier: bool) -> LinkReading:
        now_ns = self.stage.now_ns()
        return LinkReading(
            interface="eth0",
            ifindex=1,
            present=True,
            admin_up=True,
            carrier=carrier,
            operstate=OperState.UP if carrier else OperState.DOWN,
            carrier_changes=self._changes,
            carrier_ups=0,
            carrier_downs=0,
            mtu=1500,
            origin=Origin.NOTICE,
            at_ns=now_ns,
            earliest_ns=now_ns,
        )


@pytest.fixture
async def seen(one: Stage) -> Watched:
    """Observed, and dark."""
    seen = Watched(one)
    await asyncio.sleep(2.5)
    await seen.rdma.begin()
    return seen


async def test_active_is_told_within_two_looks_of_the_truth_and_those_who_wait_are_called(seen: Watched) -> None:
    seen.set_carrier(True)
    await asyncio.sleep(0.0533)
    active_ns = seen.stage.now_ns()
    seen.host.rdma("mlx5_0", active=True)
    await asyncio.sleep(0.1)
    (told,) = seen.ear.told
    assert (told.kind, told.source, told.data) == ("rdma", "sysfs", {"active": True})
    assert told.earliest_ns <= active_ns <= told.at_ns <= told.earliest_ns + 2 * MS + 2 * LOOK_NS
    assert told.sampling_ns == told.at_ns - told.earliest_ns
    assert seen.active == ["eth0"]
    assert seen.rdma.active is True
    kept = seen.rdma.observation()
    assert (kept.at_begin, kept.now, kept.lost, kept.latched) == (False, True, 0, False)


async def test_a_port_is_not_active_before_the_gid_of_its_own_address_is_there(one: Stage) -> None:
    """As the probe has it: nobody reaches the port by its first GID, the link-local one."""
    one.hosts["h0"].rdma("mlx5_0", active=True)
    seen = Watched(one, ip="10.9.0.1/24")
    await asyncio.sleep(2.5)
    await seen.rdma.begin()
    seen.set_carrier(True)
    await asyncio.sleep(1)
    assert (seen.ear.told, seen.rdma.active) == ([], False)
    came_ns = one.now_ns()
    folder = "class/infiniband/mlx5_0/ports/1"
    one.hosts["h0"].files |= {
        f"{folder}/gid_attrs/types/1": "RoCE v2\n",
        f"{folder}/gids/1": "0000:0000:0000:0000:0000:ffff:0a09:0001\n",
    }
    await asyncio.sleep(0.1)
    (told,) = seen.ear.told
    assert told.data == {"active": True}
    assert told.earliest_ns <= came_ns <= told.at_ns


@pytest.mark.parametrize("state", ["1: DOWN\n", "2: INIT\n", "3: ARMED\n", "5: ACTIVE_DEFER\n", ""])
async def test_only_active_is_active(one: Stage, state: str) -> None:
    one.hosts["h0"].rdma("mlx5_0", active=True)
    one.hosts["h0"].files[STATE] = state
    seen = Watched(one)
    await asyncio.sleep(2.5)
    assert seen.rdma.active is False


async def test_polling_is_fast_only_while_carrier_and_rdma_differ_and_slower_with_time(seen: Watched) -> None:
    looks: list[int] = []
    for carrier, for_s in ((False, 10.0), (True, 0.1), (True, 9.9)):
        if carrier != seen.carrier:
            seen.set_carrier(carrier)
        before = seen.rdma.observation().looks
        await asyncio.sleep(for_s)
        looks.append(seen.rdma.observation().looks - before)
    assert 9 <= looks[0] <= 11  # as slow as ever: neither is there
    assert 48 <= looks[1] <= 51  # each 2 ms
    assert 200 <= looks[2] <= 280  # 2 % of the time since: ln(10 / 0.1) / ln(1.02)


async def test_a_device_that_is_missing_is_said_and_told_when_it_comes(one: Stage) -> None:
    seen = Watched(one, device="mlx5_7/2")
    await asyncio.sleep(2.5)
    await seen.rdma.begin()
    words = "there is no class/infiniband/mlx5_7/ports/2/state"
    kept = seen.rdma.observation()
    assert (kept.seen, kept.why_not, seen.rdma.active) == (False, words, None)
    folder = "class/infiniband/mlx5_7/ports/2"
    one.hosts["h0"].files |= {f"{folder}/state": "4: ACTIVE\n", f"{folder}/gids/0": "fe80::1\n"}
    await asyncio.sleep(1.5)
    assert (seen.rdma.active, seen.rdma.why_not) == (True, "")
    assert seen.rdma.observation().now is True


async def test_a_change_while_the_rack_was_away_is_bounded_by_the_looks_around_it(seen: Watched) -> None:
    await seen.stage.rack_down("h0")
    await asyncio.sleep(2)
    assert seen.rdma.active is None
    active_ns = seen.stage.now_ns()
    seen.host.rdma("mlx5_0", active=True)
    await asyncio.sleep(1)
    await seen.stage.rack_up("h0")
    await asyncio.sleep(3)
    (told,) = seen.ear.told
    assert told.earliest_ns <= active_ns <= told.at_ns
    assert seen.active == ["eth0"]


async def steadied(one: Stage, verbs: PlayedVerbs | None = None, *, late_ns: int = 0) -> Watched:
    """A port that is up, and observed."""
    one.hosts["h0"].rdma("mlx5_0", active=True)
    seen = Watched(one, verbs=verbs, late_ns=late_ns)
    seen.set_carrier(True)
    await asyncio.sleep(2.5)
    assert seen.ear.told == [], "where it stands at first is no event"
    await seen.rdma.begin()
    return seen


@pytest.fixture
def verbs(one: Stage) -> PlayedVerbs:
    return PlayedVerbs(one.clock, "mlx5_0")


@pytest.fixture
async def steady(one: Stage, verbs: PlayedVerbs) -> Watched:
    return await steadied(one, verbs)


async def test_a_flap_that_no_file_showed_is_told_by_its_events(verbs: PlayedVerbs, steady: Watched) -> None:
    fell_ns = steady.stage.now_ns()
    verbs.ports["mlx5_0"].happen(PortEvent.ERROR, PortEvent.ACTIVE)  # the file says active before and after
    steady.set_carrier(True, flaps=1)
    await asyncio.sleep(3)
    assert [(told.source, told.data) for told in steady.ear.told] == [
        ("verbs", {"active": False}),
        ("verbs", {"active": True}),
    ]
    down, up = steady.ear.told
    assert down.earliest_ns <= fell_ns <= down.at_ns <= fell_ns + MS
    assert down.earliest_ns <= up.earliest_ns <= fell_ns <= up.at_ns <= fell_ns + 5 * MS
    kept = steady.rdma.observation()
    assert (kept.lost, kept.latched, kept.longest_gap_ns) == (1, True, 0)


async def test_fall_whose_event_waited_for_a_busy_processor_was_before_the_poll_that_found_the_port_active(
    one: Stage, verbs: PlayedVerbs
) -> None:
    seen = await steadied(one, verbs, late_ns=30 * MS)
    await asyncio.sleep(0.05)
    fell_ns = one.now_ns()
    await asyncio.sleep(0.005)
    seen.rdma.hurry()  # it is up again
    await asyncio.sleep(0.02)
    verbs.ports["mlx5_0"].happen(PortEvent.ERROR)
    await asyncio.sleep(0.1)
    down = seen.ear.told[0]
    assert down.data == {"active": False}
    assert down.at_ns - 30 * MS <= down.earliest_ns <= fell_ns


async def test_a_port_that_was_up_again_before_its_fall_was_taken_is_bounded_so(
    verbs: PlayedVerbs, steady: Watched
) -> None:
    steady.host.rdma("mlx5_0", active=False)
    await asyncio.sleep(0.003)
    rose_ns = steady.stage.now_ns()
    steady.host.rdma("mlx5_0", active=True)
    await asyncio.sleep(0.02)
    verbs.ports["mlx5_0"].happen(PortEvent.ERROR, PortEvent.ACTIVE)
    await asyncio.sleep(1)
    _down, up = steady.ear.told
    assert up.data == {"active": True}
    assert up.earliest_ns <= rose_ns <= up.at_ns


@pytest.mark.parametrize("late_s", [0.0, 0.02, 0.9])
async def test_a_flap_that_files_and_events_both_showed_is_told_once(
    verbs: PlayedVerbs, steady: Watched, late_s: float
) -> None:
    steady.host.rdma("mlx5_0", active=False)
    steady.set_carrier(False)
    await asyncio.sleep(0.05)
    steady.host.rdma("mlx5_0", active=True)
    steady.set_carrier(True)
    await asyncio.sleep(late_s)
    verbs.ports["mlx5_0"].happen(PortEvent.ERROR, PortEvent.ACTIVE)
    await asyncio.sleep(5)
    assert [told.data for told in steady.ear.told] == [{"active": False}, {"active": True}]
    assert steady.rdma.observation().lost == 1


@pytest.mark.parametrize("with_verbs", [True, False])
async def test_a_flap_that_neither_showed_is_counted_as_unseen_and_not_made_up(
    one: Stage, verbs: PlayedVerbs, with_verbs: bool
) -> None:
    seen = await steadied(one, verbs if with_verbs else None)
    counted_ns = one.now_ns()
    seen.set_carrier(True, flaps=2)
    await asyncio.sleep(3)
    (told,) = seen.ear.told
    assert told.data == {"active": True, "missed": 2}
    assert told.earliest_ns == counted_ns
    assert seen.rdma.observation().lost == 2
    await asyncio.sleep(5)
    assert len(seen.ear.told) == 1
    seen.set_carrier(True, flaps=1)
    await asyncio.sleep(0.01)
    seen.rdma.end()
    assert seen.rdma.observation().lost == 3, "though it ends soon after"


async def test_the_second_of_two_flaps_that_lost_its_event_is_the_one_that_is_unseen(
    verbs: PlayedVerbs, steady: Watched
) -> None:
    for told in (True, False):
        steady.set_carrier(True, flaps=1)
        if told:
            verbs.ports["mlx5_0"].happen(PortEvent.ERROR, PortEvent.ACTIVE)
        await asyncio.sleep(0.05)
    await asyncio.sleep(3)
    found = [told.data for told in steady.ear.told]
    assert found == [{"active": False}, {"active": True}, {"active": True, "missed": 1}]


async def test_a_device_that_is_removed_is_closed_and_opened_when_it_is_back(
    verbs: PlayedVerbs, steady: Watched
) -> None:
    assert steady.ports is not None
    old = verbs.ports["mlx5_0"]
    files = {path: steady.host.files.pop(path) for path in (STATE, GID)}
    verbs.missing["mlx5_0"] = "there is no RDMA device mlx5_0"
    old.gone = "the RDMA device mlx5_0/1 failed or was removed"
    old.happen(PortEvent.GONE)
    await asyncio.sleep(0.1)
    assert old.closed
    assert (steady.ports.why_not("eth0"), steady.rdma.active) == ("there is no RDMA device mlx5_0", None)
    del verbs.missing["mlx5_0"]
    steady.host.files |= files
    await asyncio.sleep(3)
    assert (steady.ports.why_not("eth0"), steady.rdma.active) == ("", True)
    assert verbs.ports["mlx5_0"] is not old


async def test_a_host_without_the_library_is_watched_by_its_files(one: Stage, verbs: PlayedVerbs) -> None:
    verbs.missing["mlx5_0"] = "pyverbs cannot be loaded. Install python3-pyverbs"
    seen = await steadied(one, verbs)
    assert seen.ports is not None
    one.hosts["h0"].rdma("mlx5_0", active=False)
    seen.set_carrier(False)
    await asyncio.sleep(1)
    assert [(told.source, told.data) for told in seen.ear.told] == [("sysfs", {"active": False})]
    kept = seen.rdma.observation()
    assert (kept.at_begin, kept.now, kept.lost) == (True, False, 1)
    assert seen.ports.why_not("eth0") == "pyverbs cannot be loaded. Install python3-pyverbs"


async def test_flaps_of_the_carrier_while_the_device_is_away_are_not_its_own(one: Stage) -> None:
    seen = await steadied(one)
    files = {path: one.hosts["h0"].files.pop(path) for path in (STATE, GID)}
    seen.set_carrier(True, flaps=2)
    await asyncio.sleep(3)
    one.hosts["h0"].files |= files
    await asyncio.sleep(3)
    assert seen.ear.told == []
    seen.set_carrier(True, flaps=1)
    await asyncio.sleep(3)
    assert [told.data for told in seen.ear.told] == [{"active": True, "missed": 1}]


# --- falls counted against falls seen


def test_what_was_seen_is_not_missing_and_the_first_that_was_counted_says_since_when() -> None:
    flaps = Flaps()
    flaps.count(2, 10)
    flaps.see()
    flaps.see()
    assert flaps.unseen()[0] == 0
    flaps.see()  # it fell by itself: that makes up for none that comes later
    assert flaps.unseen()[0] == 0
    flaps.count(0, 5)
    flaps.count(1, 10)
    flaps.count(2, 20)
    flaps.see()
    assert flaps.unseen() == (2, 10)
    assert flaps.unseen()[0] == 0
