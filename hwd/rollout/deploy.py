"""Rollout: deploys agents to hosts, one host after another, until the first failure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from hwd.model.plural import plural
from hwd.model.testbed import Host, Testbed
from hwd.rollout.agent_files import make_agent_file, make_unit, owned_switches, sets_group
from hwd.rollout.births import Births
from hwd.rollout.broker import Brokers
from hwd.rollout.host_report import HostReport, Progress, Result, RolledBackError, in_turn
from hwd.rollout.layout import Layout
from hwd.rollout.onhost.facts import UNIT
from hwd.rollout.onhost.program import NEEDED_BYTES
from hwd.rollout.remote import RemoteHost, Say
from hwd.rollout.versions import is_newer
from hwd.rollout.wheels import Bundle, Target, make_bundle
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_agents.wire import Birth
from hwd_drivers.core.errors import ConfigError, DeadlineError, FailedError, HwdError, LinkError, RefusedError
from hwd_drivers.core.offload import Offload

BIRTH_WITHIN_S: Final = 30.0
LAST_LINES: Final = 4
OWNER_EXTRAS: Final = ("gpio", "http", "serial", "ssh")
"""Extras that drivers may need, for hosts that drive switches."""


@dataclass(slots=True, kw_only=True)
class Rollout:
    """The rollout of agents to hosts. `upgrade`: hosts that have an agent get this version; else those that have none,
    or this one already. `home`: the user's, for `.ssh`.

    reports = await Rollout(testbed=testbed, brokers=brokers, layout=Layout(), offload=offload, cache=cache,
    progress=say).run([host, ...])
    """

    testbed: Testbed
    brokers: Brokers
    layout: Layout
    offload: Offload
    cache: Path
    progress: Progress
    upgrade: bool = False
    birth_within_s: float = BIRTH_WITHIN_S
    home: Path | None = None
    _bundles: dict[tuple[Target, tuple[str, ...]], Bundle] = field(default_factory=dict)

    async def run(self, hosts: Sequence[Host]) -> tuple[tuple[HostReport, ...], HwdError | None]:
        """A report for each host, and the error that stopped it."""
        verb = "upgrade" if self.upgrade else "deploy"
        if not self.layout.unit:
            return await in_turn(hosts, verb, partial(self._host, births=None))
        async with Births.open(self.testbed.name, self.brokers.from_here) as births:
            return await in_turn(hosts, verb, partial(self._host, births=births))

    async def _host(self, host: Host, births: Births | None) -> HostReport:
        async with RemoteHost.open(host, self.layout, self.progress, home=self.home) as remote, remote.exclude_others():
            facts = await remote.look()
            remote.say(f"{facts['system']}, Python {facts['python']}, {facts['machine']}")
            broker = self.brokers.for_host(host.name, facts, towards=remote.local_address)
            await self._check(host, remote, facts, broker)
            bundle = await self._bundle(host, facts, remote.say)
            self._check_version(host, facts, bundle)
            contents: dict[str, bytes | Path] = {
                "agent.yaml": make_agent_file(self.testbed, host, broker=broker, layout=self.layout),
                UNIT: make_unit(self.layout, tools=facts["tools"], sets_group=sets_group(self.testbed, host)),
            }
            there = facts["environments"].get(bundle.id) is not None
            there = there and (facts["current"] != bundle.id or facts["current_runs"])
            if not there:
                _check_room(host.name, facts)
                contents |= {wheel.name: wheel for wheel in bundle.wheels}
                remote.say(f"copying hwd-agent {bundle.id}")
            async with remote.staging(contents) as staging:
                made = False
                if not there:
                    spec, version = bundle.spec, bundle.version
                    done = await remote.do("install", staging=staging, id=bundle.id, spec=spec, version=version)
                    made = done["made"]
                return await self._start(remote, births, staging, bundle, facts, made=made)

    async def _start(
        self,
        remote: RemoteHost,
        births: Births | None,
        staging: str,
        bundle: Bundle,
        facts: Mapping[str, Any],
        *,
        made: bool,
    ) -> HostReport:
        was = None if births is None else births.boot(remote.name)
        touched = True
        try:
            done = await remote.do("switch", staging=staging, id=bundle.id, made=made)
            changed = tuple(done["changed"])
            touched = bool(changed or done["started"])
            if births is not None:
                remote.say("waiting for its birth message")
                birth = await self._born(remote, births, after=was if done["started"] else None)
                remote.say(f"connected: version {birth.version}, boot {birth.boot}, {plural(len(birth.ports), 'port')}")
        except (FailedError, LinkError) as error:
            if not touched:
                was_left = "Nothing had to be changed there, and the agent still runs as before"
                raise _with(error, f"{was_left}. For the cause: hwd agent doctor {remote.name}") from error
            if facts["current"] is None or not (self.upgrade or self._lives(facts)):
                raise _with(error, self._what_stays(remote.name)) from error
            await self._back(remote, births, error)
        await remote.do("settle", staging=staging)
        if not touched:
            return HostReport(host=remote.name, result=Result.ALREADY, version=bundle.version)
        return HostReport(host=remote.name, result=Result.DONE, version=bundle.version, changed=changed or ("started",))

    async def _born(self, remote: RemoteHost, births: Births, *, after: str | None) -> Birth:
        """Wait for its birth. Where none comes, the end of the agent's log goes into the error: after the rollback it
        cannot be found.
        """
        try:
            return await births.born(remote.name, after=after, within_s=self.birth_within_s)
        except DeadlineError as error:
            log = (await remote.look())["log"][-LAST_LINES:]
            words = "\n".join(["", "Its last words:", *log]) if log else ""
            raise DeadlineError(f"{error}{words}") from error

    def _what_stays(self, name: str) -> str:
        """The remains of a first roll-out, in words."""
        again = "and systemd keeps starting it: " if self.layout.unit else "where nothing ran before: "
        return (
            f"The installed files stay, {again}`hwd agent doctor {name}` finds the cause, "
            f"`hwd agent deploy {name}` tries again, `hwd agent remove {name}` removes them"
        )

    async def _back(self, remote: RemoteHost, births: Births | None, error: HwdError) -> NoReturn:
        """Restore the earlier agent after a failure. Always raises."""
        why = str(error).removeprefix(f"{remote.name}: ")
        what = "the upgrade" if self.upgrade else "what was deployed"
        remote.say(f"{what} failed: restoring the earlier agent")
        was = None if births is None else births.boot(remote.name)
        try:
            done = await remote.do("back")
            if births is not None:
                await births.born(remote.name, after=was, within_s=self.birth_within_s)
        except HwdError as worse:
            raise FailedError(
                f"{remote.name}: {what} failed ({why}), and so did restoring the earlier agent: {worse}"
            ) from error
        raise RolledBackError(
            f"{remote.name}: {what} did not come out, and {done['current']} runs again as before: {why}",
            str(done["current"]),
        ) from error

    async def _check(self, host: Host, remote: RemoteHost, facts: Mapping[str, Any], url: str) -> None:
        """Check what would keep the agent from running, before anything is changed."""
        name = host.name
        if facts["implementation"] != "cpython":
            raise ConfigError(
                f"{name}: its Python is {facts['implementation']}; the agent's wheels are for CPython. "
                "Install that there"
            )
        if not facts["venv"]:
            raise ConfigError(
                f"{name}: its Python has no module venv. Install it there (Debian: apt install libpython3-stdlib)"
            )
        if facts["read_only"]:
            raise ConfigError(f"{name}: {facts['near']} is read-only. Name a place that is not with --prefix DIR")
        if self.layout.unit and not facts["systemd"]:
            raise ConfigError(
                f"{name}: systemd does not run there. Use --prefix DIR --no-start, "
                "and start DIR/opt/hwd-agent/current/bin/hwd-agent as you start services there"
            )
        missing = [port.interface for port in host.ports if port.interface not in facts["interfaces"]]
        if missing:
            self.progress(name, f"has no interface {', '.join(missing)} now; its agent will wait for it")
        broker = BrokerUrl.parse(url)
        if broker.transport == "tcp" and self.layout.unit:
            why = await remote.reach(broker.host, broker.port)
            if why:
                raise LinkError(
                    f"{name}: it cannot reach the broker at {broker}: {why}. "
                    "Does it listen on that address, and does a firewall block it?"
                )

    async def _bundle(self, host: Host, facts: Mapping[str, Any], say: Say) -> Bundle:
        extras = OWNER_EXTRAS if owned_switches(self.testbed, host) else ()
        target = Target.of(facts)
        if (target, extras) not in self._bundles:
            make = partial(make_bundle, target, extras=extras, cache=self.cache, say=say)
            self._bundles[target, extras] = await self.offload(make)
        return self._bundles[target, extras]

    def _check_version(self, host: Host, facts: Mapping[str, Any], bundle: Bundle) -> None:
        current = facts["current"]
        if self.upgrade and current is None:
            raise RefusedError(f"{host.name}: has no agent that could be upgraded: hwd agent deploy {host.name}")
        if current is None or current == bundle.id or not self._lives(facts):
            return
        there = (facts["environments"].get(current) or {}).get("version", "")
        if is_newer(there, bundle.version):
            raise RefusedError(
                f"{host.name}: has the newer hwd-agent {there}, and this is {bundle.version}: "
                "upgrade hwd on this machine. "
                f"To downgrade all the same: hwd agent remove {host.name} --keep-spool, "
                f"then hwd agent deploy {host.name}"
            )
        if not self.upgrade:
            raise RefusedError(
                f"{host.name}: has hwd-agent {current}, and this is {bundle.id}: hwd agent upgrade {host.name}"
            )

    def _lives(self, facts: Mapping[str, Any]) -> bool:
        """Whether the present agent of the host counts as good."""
        return bool(facts["service"].get("ActiveState") == "active" if self.layout.unit else facts["current_runs"])


def _check_room(name: str, facts: Mapping[str, Any]) -> None:
    if facts["free_bytes"] < NEEDED_BYTES:
        free, needed = facts["free_bytes"] // 1_000_000, NEEDED_BYTES // 1_000_000
        raise FailedError(
            f"{name}: {facts['near']} has {free} MB free, and {needed} MB are needed. "
            "Free some, or name another place with --prefix DIR"
        )


def _with(error: HwdError, more: str) -> HwdError:
    """Make the same error with an explanation; below the end of the agent's log where the error has one."""
    words = str(error)
    return type(error)(f"{words}\n{more}" if "\n" in words else f"{words.rstrip('.')}. {more}")
