"""The supervisor keeps a switch connected, reports differences and writes nothing: Polatis twins in virtual time."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from hwd.model.kinds import read_document
from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError, RefusedError, StartingError
from hwd_drivers.core.values import PortOverride, PortSide
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.readings import RESTORED_WITHIN_S
from hwd_drivers.devices.supervisor import FIRST_RETRY_S, LONGEST_RETRY_S
from hwd_drivers.transports.memory import Cut, MemoryDialer, MemoryNet
from hwd_drivers.twins.server import Denial

from ..parts import ends, pairs
from ..stage import Stage


class World(Stage):
    """A twin of an 8x8 unit and a supervisor of it, which runs from `begin` on."""

    def __init__(self) -> None:
        self.net = MemoryNet()
        super().__init__("polatis-tl1", "polatis-6000", "8x8", dialer=MemoryDialer(self.net))
        self.twin = self.make(password="root")
        self.opened_s: list[float] = []
        self.supervisor = self.supervise(self.open_device, poll_s=1.0, answer_s=0.5)

    async def open_device(self) -> Device:
        self.opened_s.append(self.now_s)
        return await self.spec.open(self.context())

    async def begin(self) -> None:
        await self.twin.start()
        self.run(self.supervisor)
        await self.supervisor.wait_up()

    async def read(self) -> list[str]:
        readings = await self.supervisor.read()
        await asyncio.sleep(0)  # the documents come right after
        return [str(reading.crossconnect) for reading in readings]

    def kinds(self) -> list[str]:
        return [document.kind for document in self.documents]

    async def change(self, *, remove: str = "", add: str = "", within_s: float = 0.4) -> None:
        await self.supervisor.change(remove=pairs(remove), add=pairs(add), deadline_s=self.now_s + within_s)

    async def block(self, texts: str, to: PortOverride = PortOverride.FORCE_BLOCKED) -> None:
        await self.supervisor.override(ends(texts), to, by="ada", deadline_s=self.now_s + 0.4)

    def behind_our_back(self, *, remove: str = "", add: str = "") -> None:
        now_ns = self.clock.monotonic_ns()
        self.twin.mirror.disconnect(pairs(remove), now_ns)
        self.twin.mirror.connect(pairs(add), now_ns, move=True)

    def reads(self) -> list[tuple[list[str], list[str], bool]]:
        """What came, what went and whether that was ours."""
        return [(one["added"], one["removed"], one["ours"]) for one in self.told("switch.read")]


@pytest.fixture
async def world(virtual_time: None) -> AsyncIterator[World]:
    async with World() as world:
        yield world
        await world.twin.close()
    assert world.supervisor.device is None
    for document in world.documents:
        assert read_document(document.to_data()) == document


async def test_a_switch_that_comes_up_is_reported_with_its_identity_and_crossconnects(world: World) -> None:
    world.behind_our_back(add="1A-2B")
    await world.begin()
    await asyncio.sleep(60)
    assert world.kinds() == ["switch.up", "switch.read", "switch.power"], "nothing more while nothing changes"
    (up,) = world.told("switch.up")
    assert (up["switch"], up["vendor"], up["model"], up["down_s"]) == ("ocs1", "Polatis", "N-OST-8x8-LA1-TWIN", 0.0)
    (read,) = world.told("switch.read")
    assert read["crossconnects"] == [{"id": "1A-2B", "state": "unstated"}]
    assert (read["added"], read["removed"], read["ours"]) == ([], [], True)
    assert world.supervisor.capabilities == world.capabilities
    assert world.supervisor.cause is None


async def test_a_change_of_ours_is_reported_as_ours(world: World) -> None:
    await world.begin()
    await world.change(add="1A-2B 2A-1B")
    assert await world.read() == ["1A-2B", "2A-1B"]
    await world.change(remove="1A-2B", add="1A-3B")
    await asyncio.sleep(2)
    assert world.reads()[1:] == [(["1A-2B", "2A-1B"], [], True), (["1A-3B"], ["1A-2B"], True)]
    commands = world.told("switch.command")
    assert [(each["verb"], each["outcome"]) for each in commands] == [("connect", "done"), ("change", "done")]
    assert [each["moved"] for each in commands] == [["1A", "1B", "2A", "2B"], ["1A", "2B", "3B"]]


async def test_a_change_by_another_client_is_found_and_logged_as_a_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await world.begin()
    await world.change(add="1A-2B 2A-1B")
    await world.read()
    world.behind_our_back(remove="1A-2B", add="3A-3B")
    await asyncio.sleep(1.1)
    assert world.reads()[-1] == (["3A-3B"], ["1A-2B"], False)
    assert "ocs1: changed by another client: +3A-3B -1A-2B" in caplog.text
    await world.change(add="1A-2B")
    world.behind_our_back(add="4A-4B")
    await world.read()
    assert world.reads()[-1][2] is False, "ours and another in one reading"
    await world.change(add="1A-5B")
    await world.read()
    assert world.reads()[-1] == (["1A-5B"], ["1A-2B"], True), "what moved an end away is ours too"


async def test_a_lost_switch_is_read_after_reconnect_and_its_difference_reported(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await world.begin()
    await world.change(add="1A-2B 2A-1B")
    await world.read()
    world.net.cut("mem:ocs1", Cut.RESET)
    await asyncio.sleep(0.01)
    assert world.supervisor.device is None
    assert "Connection reset" in str(world.supervisor.cause)
    with pytest.raises(LinkError, match="ocs1: the switch is down: connection lost"):
        await world.supervisor.read()
    with pytest.raises(LinkError, match="down"):
        await world.change(add="4A-4B")
    world.behind_our_back(remove="1A-2B")
    await asyncio.sleep(20)
    world.net.heal("mem:ocs1")
    await world.supervisor.wait_up()
    await asyncio.sleep(0)
    assert world.kinds().count("switch.down") == 1
    assert world.told("switch.up")[-1]["down_s"] == pytest.approx(world.now_s, abs=1)
    read = world.told("switch.read")[-1]
    assert ([one["id"] for one in read["crossconnects"]], read["removed"]) == (["2A-1B"], ["1A-2B"])
    assert read["ours"] is False
    assert "switch.restarted" not in world.kinds(), "part of it is there: that was somebody"
    ours = [
        record
        for record in caplog.records
        if record.name in ("hwd_drivers.devices.supervisor", "hwd_drivers.devices.readings")
    ]
    texts = [f"{record.levelname} {record.message}" for record in ours]
    assert texts[0].startswith("INFO ocs1: up: Polatis")
    assert texts[1].startswith("WARNING ocs1: down: connection lost")
    assert texts[2].startswith("INFO ocs1: up again after 2")
    assert texts[3] == "WARNING ocs1: changed while it was down: -1A-2B"
    assert len(texts) == 4


async def test_a_restart_is_reported_and_restored_crossconnects_are_not_a_foreign_change(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await world.begin()
    await world.change(add="1A-2B 2A-1B")
    await world.read()
    world.twin.faults.reboot(4)
    await asyncio.sleep(30)
    (restart,) = world.told("switch.restarted")
    assert (restart["sign"], restart["lost"], restart["uptime_s"]) == ("at-rest", ["1A-2B", "2A-1B"], None)
    kinds = world.kinds()
    assert kinds.index("switch.restarted") == len(kinds) - 1 - kinds[::-1].index("switch.up") + 1, "right after it"
    world.behind_our_back(add="1A-2B")
    assert await world.read() == ["1A-2B"]
    assert [read["ours"] for read in world.told("switch.read")] == [True] * 4, "as a unit that keeps it does"
    world.behind_our_back(add="3A-3B")
    await world.read()
    assert world.told("switch.read")[-1]["ours"] is False, "that one it had not"
    world.behind_our_back(remove="1A-2B")
    await world.read()
    assert world.told("switch.read")[-1]["ours"] is False, "it had made that anew"
    await asyncio.sleep(RESTORED_WITHIN_S)
    world.behind_our_back(add="2A-1B")
    await world.read()
    assert world.told("switch.read")[-1]["ours"] is False, "long after its restart"
    assert (
        "ocs1: seems to have restarted: it ended the session, and all that it carried is gone at once: 1A-2B, 2A-1B"
        in caplog.text
    )
    assert "changed while" not in caplog.text


async def test_an_unreachable_switch_is_reported_once_and_tried_with_growing_jittered_pauses(world: World) -> None:
    world.run(world.supervisor)
    await asyncio.sleep(600)
    assert world.kinds() == ["switch.down"]
    pauses_s = [later - sooner for sooner, later in zip(world.opened_s, world.opened_s[1:], strict=False)]
    for failures, pause_s in enumerate(pauses_s):
        assert pause_s <= min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**failures) + 0.001
    assert len(set(pauses_s)) == len(pauses_s)
    assert max(pauses_s) > LONGEST_RETRY_S / 2


async def test_a_refused_login_waits_the_longest_pause_at_once(world: World) -> None:
    await world.twin.start()
    world.password = "wrong"
    world.run(world.supervisor)
    await asyncio.sleep(3 * LONGEST_RETRY_S + 1)
    assert world.opened_s == [0, LONGEST_RETRY_S, 2 * LONGEST_RETRY_S, 3 * LONGEST_RETRY_S]
    assert "PICC" in world.told("switch.down")[0]["cause"]


async def test_a_silent_switch_counts_as_down_and_recovers(world: World) -> None:
    await world.begin()
    world.twin.faults.silent = True
    await asyncio.sleep(2)
    assert "no answer within 0.5 s" in world.told("switch.down")[0]["cause"]
    world.twin.faults.clear()
    await world.supervisor.wait_up()
    await asyncio.sleep(0)
    assert world.kinds()[-2:] == ["switch.up", "switch.read"]


async def test_a_start_is_no_warning_and_a_failed_start_is_one(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def open_later() -> Device:
        if world.now_s < 3.0:
            raise StartingError("ocs1: its twin rack is starting (pid 7)")
        raise LinkError("ocs1: its twin rack is not up")

    world.supervisor = world.supervise(open_later)
    world.run(world.supervisor)
    await asyncio.sleep(2.0)
    assert world.supervisor.cause == "its twin rack is starting (pid 7)"
    await asyncio.sleep(60.0)
    causes = [each["cause"] for each in world.told("switch.down")]
    assert causes == ["its twin rack is starting (pid 7)", "its twin rack is not up"]
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "ocs1: its twin rack is starting (pid 7)"),
        ("WARNING", "ocs1: down: its twin rack is not up"),
    ]


async def test_a_bug_of_a_driver_is_logged_with_its_traceback_and_tried_again_late(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> Device:
        world.opened_s.append(world.now_s)
        raise ZeroDivisionError("a bug")

    world.supervisor = world.supervise(broken)
    world.run(world.supervisor)
    await asyncio.sleep(LONGEST_RETRY_S + 1)
    assert world.opened_s == [0, LONGEST_RETRY_S]
    assert "ocs1: bug in its driver" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_each_failed_command_is_reported_with_its_reason(world: World) -> None:
    await world.begin()
    faults = world.twin.faults
    faults.deny_next = Denial(code="SROF", text="no")
    with pytest.raises(DeviceError):
        await world.change(add="1A-2B")
    faults.silent = True
    with pytest.raises(DeadlineError):
        await world.change(add="1A-2B", within_s=0.1)
    faults.clear()
    faults.garble_next = True
    with pytest.raises(ProtocolError):
        await world.change(remove="1A-2B")
    await asyncio.sleep(1)
    await world.supervisor.wait_up()
    faults.silent = True
    waiting = asyncio.create_task(world.change(add="1A-2B"))
    await asyncio.sleep(0.1)
    faults.reset()
    with pytest.raises(LinkError):
        await waiting
    commands = [(each["verb"], each["outcome"], each["code"]) for each in world.told("switch.command")]
    assert commands == [
        ("connect", "denied", "SROF"),
        ("connect", "timeout", ""),
        ("disconnect", "garbled", ""),
        ("connect", "lost", ""),
    ]
    moved = [each.get("moved") for each in world.told("switch.command")]
    assert moved == [None, ["1A", "2B"], ["1A", "2B"], ["1A", "2B"]], "a list that was denied whole moved nothing"


async def test_a_reading_that_a_change_overlapped_is_not_reported_and_power_when_it_changes(world: World) -> None:
    await world.begin()
    world.twin.faults.slow_s = 0.05
    changing = asyncio.create_task(world.change(add="1A-2B"))
    await asyncio.sleep(0.01)
    await world.read()
    await changing
    assert len(world.told("switch.read")) == 1
    await world.read()
    assert world.told("switch.read")[-1]["ours"] is True
    world.twin.mirror.set_input(PortSide.parse("1A"), 1.0)
    await asyncio.sleep(10)
    assert len(world.told("switch.power")) == 2
    before, lit = (each["power_dbm"] for each in world.told("switch.power"))
    assert set(before.values()) == {None}
    assert lit["2B"] == pytest.approx(-0.5, abs=0.8)
    assert lit["1B"] is None


async def test_a_slow_change_is_not_cut_off_by_looks(world: World) -> None:
    await world.begin()
    await asyncio.sleep(0.3)
    world.twin.faults.slow_s = 3.0
    await world.change(add="1A-2B", within_s=5)
    world.twin.faults.slow_s = 0.0
    await asyncio.sleep(3)
    assert world.told("switch.down") == []
    assert [each["outcome"] for each in world.told("switch.command")] == ["done"]
    assert world.told("switch.read")[-1]["added"] == ["1A-2B"]


async def test_a_look_that_a_change_overtook_may_fail(world: World) -> None:
    await world.begin()
    await asyncio.sleep(0.9)
    world.twin.faults.slow_s = 1.0
    await asyncio.sleep(0.2)  # a look is under way, and its answer will be late
    await world.change(add="1A-2B", within_s=5)
    world.twin.faults.slow_s = 0.0
    await asyncio.sleep(3)
    assert world.told("switch.down") == []
    assert len(world.opened_s) == 1


async def test_an_end_that_another_client_blocks_is_reported_once_over_sessions(world: World) -> None:
    await world.begin()
    await world.block("1A")  # from here on the driver knows the unit's words
    other = await world.open()
    await other.override("5A 6B", PortOverride.FORCE_BLOCKED)
    await asyncio.sleep(1.5)
    await other.override("5A", PortOverride.NORMAL)
    await asyncio.sleep(1.5)
    await other.close()
    assert world.supervisor.blocked == frozenset(ends("1A 6B"))
    told = [(one["ends"], one["to"], one["by"]) for one in world.told("switch.override")]
    assert told[1:] == [(["5A", "6B"], "force-blocked", "somebody else"), (["5A"], "normal", "somebody else")]
    world.twin.faults.reset()
    await asyncio.sleep(1.5)
    (again,) = world.told("switch.override")[3:]
    assert (again["ends"], again["by"]) == (["1A", "6B"], "found at connecting")


async def test_an_unanswered_block_that_was_done_is_attributed_to_who_asked(world: World) -> None:
    await world.begin()
    await world.block("6B")  # from here on the driver knows the unit's words
    world.twin.faults.silent = True
    with pytest.raises(DeadlineError):
        await world.block("1A")
    world.twin.faults.silent = False
    await asyncio.sleep(3)
    assert world.supervisor.blocked == frozenset(ends("1A 6B"))
    told = [(one["ends"], one["by"]) for one in world.told("switch.override")]
    assert told[1:] == [(["1A"], "ada")]


async def test_an_end_that_cannot_be_dark_is_refused_and_a_blocked_one_reported_with_who_asked(world: World) -> None:
    await world.begin()
    with pytest.raises(RefusedError, match="ocs1: 9A cannot be held dark; those from 1A to 8B can"):
        await world.block("1A 9A")
    world.twin.faults.deny_next = Denial(code="SROF", text="no")
    with pytest.raises(DeviceError, match="SROF"):
        await world.block("4A")
    assert world.supervisor.blocked == frozenset()
    assert [(one["verb"], one["outcome"], one["code"]) for one in world.told("switch.command")] == [
        ("block", "denied", "SROF")
    ]
    world.behind_our_back(add="1A-2B 3A-4B")
    await world.block("1A")
    assert [str(one) for one in await world.supervisor.read()] == ["1A-2B blocked", "3A-4B unstated"]
    await world.block("1A", to=PortOverride.NORMAL)
    assert [str(one) for one in await world.supervisor.read()] == ["1A-2B unstated", "3A-4B unstated"]
    told = [(one["ends"], one["to"], one["by"]) for one in world.told("switch.override")]
    assert told == [(["1A"], "force-blocked", "ada"), (["1A"], "normal", "ada")]
    assert [(one["verb"], one["outcome"]) for one in world.told("switch.command")[1:]] == [
        ("block", "done"),
        ("unblock", "done"),
    ]
