"""Parts of the daemon by themselves: its sinks, the limits, what libraries say, the watchdog, switches at its end."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd.daemon.driven_switches import DrivenSwitches
from hwd.daemon.fanout import Fanout
from hwd.daemon.installed_drivers import load_text
from hwd.daemon.lag import watch_lag
from hwd.daemon.limits import DETAIL_MAX, EVERY_S, Limits
from hwd.daemon.process_main import Seldom, log_to_stderr
from hwd.daemon.seams import Machine
from hwd.daemon.watchdog import Watchdog
from hwd.fabric.fabric import Fabric
from hwd.model.daemon import BusUp, DaemonStopped, LimitReached
from hwd.model.limit import Limit
from hwd.model.testbed import Switch
from hwd.sim.planes import SimPlanes
from hwd_agents.process.systemd import Notifier
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.abilities import Device
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from .test_reload import TEXT, WITH_OCS3

UP = Document(at_ns=1, wall_ns=2, fact=BusUp(address="mem:broker"))
STOPPED = Document(at_ns=3, wall_ns=4, fact=DaemonStopped(reason="asked to"))


def test_a_sink_gets_the_kinds_that_it_takes_whatever_another_does_and_can_be_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(document: Document) -> None:
        raise ValueError("out of order")

    everything, some = list[Document](), list[Document]()
    take = everything.append
    fanout = Fanout([broken, take])
    fanout.add(some.append, DaemonStopped)
    with caplog.at_level(logging.ERROR):
        for document in (UP, STOPPED):
            fanout(document)
        fanout.without(take)(STOPPED)
    assert everything == [UP, STOPPED]
    assert some == [STOPPED, STOPPED]
    assert "a sink failed on bus.up" in caplog.text
    assert "out of order" in caplog.text


async def test_the_first_is_told_at_once_and_the_others_are_counted(virtual_loop: VirtualLoop) -> None:
    told = list[LimitReached]()

    def keep(document: Document) -> None:
        assert isinstance(document.fact, LimitReached)
        told.append(document.fact)

    limits = Limits(SystemClock())
    limits(Limit.HTTP_BODY, "before anybody listened")
    task = asyncio.create_task(limits.run(keep))
    await asyncio.sleep(0.001)
    assert [fact.count for fact in told] == [1]
    for number in range(1000):
        limits(Limit.HTTP_BODY, f"body {number}")
        limits(Limit.MQTT_PACKET, "x" * 1000)
        await asyncio.sleep(EVERY_S / 2000)
    assert len(told) == 2, "one more limit, and nothing yet of the first"
    await asyncio.sleep(2 * EVERY_S)
    limits(Limit.HTTP_BODY, "at the end")
    await asyncio.sleep(0.001)
    limits(Limit.HTTP_BODY, "at the very end")
    task.cancel()
    await asyncio.wait([task])
    bodies = [fact for fact in told if fact.limit == "http-body"]
    assert [fact.count for fact in bodies] == [1, 1000, 1, 1]
    assert [fact.detail for fact in bodies][1:] == ["body 999", "at the end", "at the very end"]
    packets = [fact for fact in told if fact.limit == "mqtt-packet"]
    assert sum(fact.count for fact in packets) == 1000
    assert all(len(fact.detail) < DETAIL_MAX + 4 for fact in packets)


def said_by(name: str) -> None:
    try:
        raise TimeoutError("no PUBACK for packet 3")
    except TimeoutError:
        logging.getLogger(name).exception("Task failed")


def test_a_library_speaks_once_in_a_while_at_each_place_without_traces_and_we_always(
    capfd: pytest.CaptureFixture[str],
) -> None:
    root, kept = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    try:
        log_to_stderr(verbose=False)
        for _ in range(3):
            said_by("amqtt.broker")
        for _ in range(2):
            logging.getLogger("hwd.test").error("ours")
    finally:
        root.handlers[:] = kept
        root.setLevel(level)
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition("ERROR   ")[2] for line in lines] == [
        "Task failed (TimeoutError('no PUBACK for packet 3'))",
        "ours",
        "ours",
    ]
    seldom = Seldom(SystemClock())
    records = [logging.LogRecord("amqtt", logging.ERROR, "a.py", line, "said", None, None) for line in (1, 2, 1)]
    assert [seldom.filter(record) for record in records] == [True, True, False]


PERIOD_S = 15.0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket that systemd would listen on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        yield sock


def beats(manager: socket.socket) -> int:
    count = 0
    while True:
        try:
            assert manager.recv(4096) == b"WATCHDOG=1"
        except BlockingIOError:
            return count
        count += 1


async def test_a_loop_that_turns_in_time_feeds_it_twice_in_a_period_and_one_that_stays_late_does_not_and_is_logged_once(
    manager: socket.socket, virtual_loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": str(int(PERIOD_S * 1e6))}
    watchdog = Watchdog(Notifier(environment, pid=1))
    emit = Emitter(VirtualClock(virtual_loop, wall_start_ns=0), lambda _: None)
    watching = asyncio.create_task(watch_lag(emit, watchdog.feed))
    for _ in range(10):
        await asyncio.sleep(PERIOD_S)
        assert 2 <= beats(manager) <= 3
    watching.cancel()
    await asyncio.wait([watching])
    for _ in range(6):
        await asyncio.sleep(6.0)
        watchdog.feed(5.9)
    assert beats(manager) == 0
    watchdog.feed(0.1)
    assert beats(manager) == 1
    (said,) = caplog.messages
    assert "a turn came 5.9 s late, over 5.0 s" in said
    Watchdog(Notifier({"NOTIFY_SOCKET": manager.getsockname()}, pid=1)).feed(0.0)
    assert beats(manager) == 0, "the manager has none"


async def test_a_reload_that_comes_while_sessions_end_begins_none(virtual_loop: VirtualLoop) -> None:
    opened: list[str] = []

    async def open_switch(switch: Switch, sink: Sink) -> Device:
        opened.append(switch.name)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)  # it says goodbye
        raise AssertionError

    clock = VirtualClock(virtual_loop, wall_start_ns=0)
    machine = Machine(
        clock=clock, ids=SeededIds(1), draws=Draws(1), offload=InlineOffload(), plane=SimPlanes(), virtual_time=True
    )
    before, after = (load_text(text, file="desk.yaml").require() for text in (TEXT, WITH_OCS3))
    switches = DrivenSwitches(before, open_switch, machine=machine, sink=lambda document: None)
    running = asyncio.create_task(switches.run())
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.sleep(0.5)
    assert not running.done()
    switches.use_testbed(Fabric(after))
    assert [*switches.drivers] == ["ocs1", "ocs2", "ocs3"]
    await asyncio.wait([running])
    assert running.cancelled()
    assert sorted(opened) == ["ocs1", "ocs2"]
