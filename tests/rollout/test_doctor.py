"""What the doctor says is of the moment at which it looked."""

from pathlib import Path
from typing import Any

import pytest

from hwd.bus.broker import EmbeddedBroker, Logins, UserRights
from hwd.model.host import HostClock, HostStatus
from hwd.model.status import BusStatus, Status, StorageStatus
from hwd.model.testbed import Host
from hwd.rollout.births import connected
from hwd.rollout.broker import Brokers
from hwd.rollout.doctor import Diagnosis, Doctor
from hwd.rollout.layout import Layout
from hwd_agents.bus.mqtt import MqttBus
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws

from .conftest import LAB

CLOCK = HostClock(
    boot="b",
    offset_ns=0,
    drift_ppm=0.0,
    error_ns=1000,
    agent_ns=0,
    samples=5,
    drift_error_ppm=0.1,
    round_trip_ns=900,
    via="udp",
    why_not_udp="",
    steps=0,
    step=None,
)


async def test_the_daemon_is_asked_after_each_host_was_looked_at() -> None:
    """A look takes seconds, and with many hosts minutes: what the daemon knew before is not what is."""
    told: list[str] = []
    hosts = [Host(name=name, ports=()) for name in ("h0", "h1")]

    def ask() -> Status:
        told.append("asked")
        hosts = [HostStatus(host=name, up="h1" in told, cause="not yet", clock=CLOCK) for name in ("h0", "h1")]
        return Status(
            testbed="lab",
            version="0.1.0",
            bus=BusStatus(address="", connected=True),
            records=StorageStatus(writable=True, why=None),
            journal=StorageStatus(writable=True, why=None),
            switches=[],
            hosts=hosts,
            lit=[],
            leases=[],
            held=[],
            reconfigurations=[],
            open=[],
            runs=[],
            queue=[],
        )

    doctor = Doctor(
        testbed=LAB,
        brokers=Brokers(named=None, daemons=None),
        layout=Layout(),
        progress=lambda host, words: told.append(host),
        ask_daemon=ask,
    )
    first, second = await doctor.run(hosts)
    assert told == ["h0", "asked", "h1", "asked"]
    assert [one.text for one in first.findings if one.subject == "daemon"] == ["does not hear the agent: not yet"]
    assert [one.light for one in second.findings if one.subject == "clock"] == ["green"]


async def examined(sshd: Any, prefix: Path, brokers: Brokers) -> Diagnosis:
    """A host without NIC ports, of a testbed whose daemon is not there."""
    layout = Layout(prefix=str(prefix), unit="")
    doctor = Doctor(
        testbed=LAB, brokers=brokers, layout=layout, progress=lambda *_: None, ask_daemon=lambda: None, home=sshd.home
    )
    (found,) = await doctor.run([Host(name="h0", ports=(), ssh=sshd.place)])
    return found


async def test_an_unknown_broker_and_a_host_with_nothing_to_watch_are_each_reported_where_they_belong(
    sshd: Any, tmp_path: Path
) -> None:
    found = await examined(sshd, tmp_path, Brokers(named=None, daemons=None))
    said = [one.subject for one in found.findings if "no daemon of this testbed runs here. Start it" in one.text]
    assert said == ["broker"]
    broker = EmbeddedBroker()
    try:
        found = await examined(sshd, tmp_path, Brokers(named=await broker.start(), daemons=None))
    finally:
        await broker.close()
    assert [one.subject for one in found.findings if "has no NIC ports in testbed lab" in one.text] == ["agent file"]


@pytest.mark.parametrize(
    ("users", "light", "words"),
    [
        (("lab", "lab.h0"), "green", "the broker takes it at mqtt://lab.h0@127.0.0.1:"),
        (("lab",), "red", "It does not take this user and password: `hwd agent deploy` brings an agent its own"),
    ],
)
async def test_whether_the_broker_takes_the_password_of_the_host_is_said_and_its_agent_not_disturbed(
    users: tuple[str, ...], light: str, words: str, sshd: Any, tmp_path: Path
) -> None:
    rights = UserRights(testbed="lab", hosts=frozenset({"h0"}))
    logins = Logins(rights, "secret")
    broker = EmbeddedBroker(users={user: logins.password(user) for user in users}, rights=rights)
    url = await broker.start()
    other = MqttBus(logins.for_daemon(url), "hwd-lab-h0", SystemClock(), Draws(None))
    lost: list[str] = []
    other.on_down(lost.append)
    try:
        async with connected(other):
            found = await examined(sshd, tmp_path, Brokers(named=None, daemons=logins.for_daemon(url), logins=logins))
    finally:
        await broker.close()
    (password,) = [one for one in found.findings if one.subject == "password"]
    assert password.light == light
    assert words in password.text
    assert lost == []
