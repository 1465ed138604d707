"""What the doctor says is of the moment at which it looked."""

from pathlib import Path
from typing import Any

from hwd.bus.broker import EmbeddedBroker
from hwd.model.testbed import Host, Testbed
from hwd.rollout.broker import Brokers
from hwd.rollout.doctor import Doctor
from hwd.rollout.layout import Layout


async def test_the_daemon_is_asked_after_each_host_was_looked_at() -> None:
    """A look takes seconds, and with many hosts minutes: what the daemon knew before is not what is."""
    told: list[str] = []
    hosts = [Host(name=name, ports=()) for name in ("h0", "h1")]

    def ask() -> dict[str, object]:
        told.append("asked")
        heard = {"up": "h1" in told, "cause": "not yet", "clock": {"offset_ns": 0, "error_ns": 1000}}
        return {"version": "0.1.0", "hosts": [{"host": name, **heard} for name in ("h0", "h1")]}

    doctor = Doctor(
        testbed=Testbed(name="lab", switches={}, hosts={}, strands=()),
        brokers=Brokers(named=None, daemons=None),
        layout=Layout(),
        progress=lambda host, words: told.append(host),
        ask_daemon=ask,
    )
    first, second = await doctor.run(hosts)
    assert told == ["h0", "asked", "h1", "asked"]
    assert [one.text for one in first.findings if one.subject == "daemon"] == ["does not hear the agent: not yet"]
    assert [one.light for one in second.findings if one.subject == "clock"] == ["green"]


async def test_a_broker_that_nobody_named_is_said_once_and_not_laid_on_the_agent_file(
    sshd: Any, tmp_path: Path
) -> None:
    doctor = Doctor(
        testbed=Testbed(name="lab", switches={}, hosts={}, strands=()),
        brokers=Brokers(named=None, daemons=None),
        layout=Layout(prefix=str(tmp_path), unit=""),
        progress=lambda host, words: None,
        ask_daemon=lambda: None,
        home=sshd.home,
    )
    (found,) = await doctor.run([Host(name="h0", ports=(), ssh=sshd.place)])
    said = [one.subject for one in found.findings if "no daemon of this testbed runs here. Start it" in one.text]
    assert said == ["broker"]


async def test_a_host_with_nothing_to_watch_is_not_laid_on_the_broker(sshd: Any, tmp_path: Path) -> None:
    broker = EmbeddedBroker()
    try:
        doctor = Doctor(
            testbed=Testbed(name="lab", switches={}, hosts={}, strands=()),
            brokers=Brokers(named=await broker.start(), daemons=None),
            layout=Layout(prefix=str(tmp_path), unit=""),
            progress=lambda host, words: None,
            ask_daemon=lambda: None,
            home=sshd.home,
        )
        (found,) = await doctor.run([Host(name="h0", ports=(), ssh=sshd.place)])
    finally:
        await broker.close()
    assert [one.subject for one in found.findings if "has no NIC ports in testbed lab" in one.text] == ["agent file"]
