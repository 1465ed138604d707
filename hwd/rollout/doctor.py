"""Doctor: finds everything that keeps a host's agent from connecting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from hwd.model.status import Status
from hwd.model.testbed import Host, Testbed
from hwd.rollout.agent_files import make_agent_file, make_unit, sets_group
from hwd.rollout.births import Births, connected
from hwd.rollout.broker import Brokers
from hwd.rollout.findings import Finding, Light, green, of_birth, of_disk, of_install, of_silence, of_unit, red, yellow
from hwd.rollout.host_report import Progress
from hwd.rollout.layout import Layout
from hwd.rollout.onhost.program import NEEDED_BYTES
from hwd.rollout.remote import RemoteHost
from hwd_agents.bus.mqtt import BrokerUrl, MqttBus
from hwd_agents.wire import client_id
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import HwdError, LinkError
from hwd_drivers.core.ids import Draws

CLOCK_MOST_NS = 100_000
"""A larger error of a clock blurs the stages of a fast switch."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All findings of one host, in the order of their dependencies. `ill`: one of them is red."""

    host: str
    ill: bool
    findings: Sequence[Finding]


@dataclass(slots=True, kw_only=True)
class Doctor:
    """The examination of hosts and their agents. `ask_daemon`: the status of the testbed's daemon, None where none
    runs. Called after each host was examined, which takes seconds.
    """

    testbed: Testbed
    brokers: Brokers
    layout: Layout
    progress: Progress
    ask_daemon: Callable[[], Status | None]
    home: Path | None = None

    async def run(self, hosts: Sequence[Host]) -> tuple[Diagnosis, ...]:
        """One after another; never raises an HwdError: that becomes a finding."""
        try:
            async with Births.open(self.testbed.name, self.brokers.from_here) as births:
                return tuple([await self._host(host, births, "") for host in hosts])
        except HwdError as error:
            return tuple([await self._host(host, None, str(error)) for host in hosts])

    async def _host(self, host: Host, births: Births | None, no_broker: str) -> Diagnosis:
        findings: list[Finding] = []
        log: Sequence[str] = ()
        links: Mapping[str, str] | None = None
        try:
            there, facts = await self._there(host)
            findings += there
            log = facts["log"] if facts["service"].get("ActiveState") == "active" else ()
            links = facts["interfaces"]
        except HwdError as error:
            findings.append(red("host", str(error)))
        if births is not None:
            findings += await self._login(host)
        daemon = self.ask_daemon()
        if births is None:
            if all(one.text != no_broker for one in findings):
                findings.append(red("broker", no_broker))
        elif (birth := births.birth.get(host.name)) is None or not births.is_up(host.name):
            state, unreadable = births.state.get(host.name), births.unreadable.get(host.name)
            findings.append(of_silence(state, unreadable=unreadable, never=birth is None, log=log))
        else:
            findings.append(green("birth", f"boot {birth.boot}"))
            speaks = None if daemon is None else daemon.version
            findings += of_birth(host, birth, ours=version("hwd-agents"), daemon=speaks, links=links)
        findings.append(_at_the_daemon(host.name, daemon))
        ill = any(finding.light is Light.RED for finding in findings)
        return Diagnosis(host=host.name, ill=ill, findings=findings)

    async def _there(self, host: Host) -> tuple[list[Finding], Mapping[str, Any]]:
        """Findings over SSH, and the facts."""
        async with RemoteHost.open(host, self.layout, self.progress, home=self.home) as remote:
            facts = await remote.look()
            system = f"{facts['system']}, kernel {facts['kernel']}, Python {facts['python']}, {facts['machine']}"
            findings = [green("host", f"{host.ssh}: {system}")]
            findings += of_install(host.name, facts)
            findings += of_disk(facts, needed_bytes=NEEDED_BYTES)
            if self.layout.unit:
                findings += of_unit(host.name, facts)
            findings += await self._configured(host, remote, facts)
            if facts["synchronized"] is False:
                why = "no time service runs, so the times of its log mislead (figures do not depend on it)"
                findings.append(yellow("wall clock", f"{why}. Install chrony or systemd-timesyncd there"))
        return findings, facts

    async def _configured(self, host: Host, remote: RemoteHost, facts: Mapping[str, Any]) -> list[Finding]:
        """Agent file and unit compared with the testbed; the broker as seen from there."""
        try:
            url = self.brokers.for_host(host.name, facts, towards=remote.local_address)
        except HwdError as error:
            return [red("broker", str(error))]
        try:
            expected = make_agent_file(self.testbed, host, broker=url, layout=self.layout)
        except HwdError as error:
            return [red("agent file", str(error))]
        found = [_drift("agent file", self.layout.config, facts["config"], expected, host.name)]
        if facts["config_mode"] not in (None, "600"):
            why = f"others can read it (mode {facts['config_mode']}, not 600), and its password is in it"
            found.append(red("agent file", f"{why}: hwd agent deploy {host.name}"))
        if self.layout.unit:
            unit = make_unit(self.layout, tools=facts["tools"], sets_group=sets_group(self.testbed, host))
            found.append(_drift("unit file", self.layout.unit, facts["unit"], unit, host.name))
        broker = BrokerUrl.parse(url)
        if broker.transport == "tcp":
            why = await remote.reach(broker.host, broker.port)
            if why:
                remedy = "Does it listen there, and does a firewall block it?"
                found.append(red("broker", f"the host cannot reach {broker}: {why}. {remedy}"))
            else:
                found.append(green("broker", f"the host reaches {broker}"))
        return found

    async def _login(self, host: Host) -> list[Finding]:
        """Whether the broker accepts the password of a roll-out, with a client id of its own, so that the agent's
        connection is not disturbed.
        """
        if (url := self.brokers.login_of(host.name)) is None:
            return []
        bus = MqttBus(url, f"{client_id(self.testbed.name, host.name)}.doctor", SystemClock(), Draws(None))
        try:
            async with connected(bus):
                return [green("password", f"the broker takes it at {bus.address}")]
        except LinkError as error:
            return [red("password", str(error))]


def _at_the_daemon(host: str, daemon: Status | None) -> Finding:
    if daemon is None:
        return yellow("daemon", "no daemon of this testbed runs here, so nothing reads the agent's events: hwd serve")
    status = next((one for one in daemon.hosts if one.name == host), None)
    if status is None:
        why = "the one that runs here does not know this host. Restart it with this testbed file: hwd serve"
        return red("daemon", why)
    if not status.up:
        return red("daemon", f"does not hear the agent: {status.cause}")
    clock = status.clock
    if clock is None:
        return yellow("clock", "is not aligned yet; it takes a second or two after the agent's start")
    words = f"{clock.offset_ns / 1e9:+.6f} s ± {clock.error_ns / 1e3:.0f} µs"
    if clock.error_ns > CLOCK_MOST_NS:
        least = f"known no better than {CLOCK_MOST_NS // 1000} µs. Is the way to the daemon slow or busy?"
        return yellow("clock", f"{words}: {least}")
    return green("clock", words)


def _drift(subject: str, path: str, there: str | None, expected: bytes, host: str) -> Finding:
    if there is None:
        return red(subject, f"{path} is not there: hwd agent deploy {host}")
    if there != sha256(expected).hexdigest():
        return red(subject, f"{path} is not what the testbed file says now: hwd agent deploy {host}")
    return green(subject, f"{path} is as the testbed file says")
