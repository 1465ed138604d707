"""The driver of SONiC optical switches: commands over one SSH session."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.core.errors import BugError, ConfigError, DeadlineError, DeviceError, FailedError, ProtocolError
from hwd_drivers.core.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    CrossconnectState,
    Exchange,
    Identity,
    PortOverride,
    PortSide,
)
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.sonic import protocol
from hwd_drivers.families.sonic.tables import Tables
from hwd_drivers.transports.ssh.keys import HostTrust
from hwd_drivers.transports.ssh.session import SshLogin, SshOutput, SshSession

T = TypeVar("T")


class SonicOptions(BaseModel):
    """Options of a SONiC optical switch in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    login_within_s: float = Field(default=10.0, gt=0, description="limit for connecting and logging in")
    poll_s: float = Field(default=0.1, gt=0, description="time between readings of crossconnects that are tuning")
    sudo: bool = Field(default=True, description="config commands are run by sudo")
    host_key: str | None = Field(
        default=None, description="the switch's SSH host key, ssh-ed25519 AAAA..., or its fingerprint, SHA256:..."
    )
    known_hosts: Path | None = Field(default=None, description="a file of host keys in OpenSSH's format")
    trust_first: bool = Field(
        default=False, description="add the key of a host that is not in known_hosts, and trust it from then on"
    )
    key_file: Path | None = Field(default=None, description="private key to log in with, in place of the password")
    read_before: bool = Field(
        default=True,
        description="read the crossconnects in the same command line as each change, to know what it moved away",
    )


LOOK_WITHIN_S: Final = 1.0
"""A query of the tables that had less time than this, and no answer, does not count as a loss of the switch."""
ATTEMPTS: Final = 3
"""Attempts at a change of which another client removes a part meanwhile."""

log = logging.getLogger(__name__)


class SonicSwitch:
    """One session with one switch; open it with `SonicSwitch.open`."""

    def __init__(self, context: OpenContext, options: SonicOptions, ssh: SshSession) -> None:
        self.name = context.name
        self._context = context
        self._options = options
        self._ssh = ssh
        self._remarks: tuple[str, ...] = ()

    @classmethod
    async def open(cls, context: OpenContext) -> "SonicSwitch":
        """Connect and log in.

        Raises LoginError where the switch refuses user or password, ConfigError where its host key is not trusted.
        """
        options = context.options_as(SonicOptions)
        if context.user is None or (context.password is None and options.key_file is None):
            raise ConfigError(f"{context.name}: a SONiC switch needs a login. Give user and password in the testbed")
        trust = HostTrust(host_key=options.host_key, known_hosts=options.known_hosts, trust_first=options.trust_first)
        ssh = await SshSession.open(
            context.dialer,
            context.address,
            name=context.name,
            login=SshLogin(user=context.user, password=context.password, key_file=options.key_file, trust=trust),
            clock=context.clock,
            deadline_s=asyncio.get_running_loop().time() + options.login_within_s,
        )
        return cls(context, options, ssh)

    async def identify(self, *, deadline_s: float) -> Identity:
        version = await self._show(
            protocol.SHOW_VERSION, lambda lines: protocol.read_version("\n".join(lines)), deadline_s
        )
        return Identity(
            vendor="SONiC",
            model=version.hardware,
            serial=version.serial,
            firmware=version.software,
            uptime_s=version.uptime_s,
        )

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model. Raises ConfigError where the switch has other ports."""
        found = await self._show(protocol.SHOW_PORT_CONFIG, protocol.read_overrides, deadline_s)
        stated = self._context.capabilities
        if found.keys() != set(stated.ends):
            raise ConfigError(
                f"{self.name}: the switch has {len(found)} ports, {_some(found)}; the testbed says {len(stated.ends)}, "
                f"{_some(stated.ends)}. Correct its size in the testbed file"
            )
        return stated

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        """Configured crossconnects in the optics, with their state, at most one at each end.

        Those in the configuration only, or in the optics only, are failed, and logged.
        """
        tables = await self._tables(deadline_s)
        remarks = tables.remarks()
        for remark in remarks:
            if remark not in self._remarks:
                log.warning("%s: %s: it is read as failed, and made again when it is asked for", self.name, remark)
        self._remarks = remarks
        return tables.readings()

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One command line: pairs that `add` does not replace are deleted, then `add` is made in mode update.

        Returns when all of it is configured and tuned. A crossconnect that is only in the optics cannot be deleted, and
        would stay beside a new one: it is configured first, then deleted. Where the switch reports a missing
        crossconnect that was removed meanwhile, the rest is done. Raises FailedError where the read-back differs at the
        deadline.
        """
        if not remove and not add:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        tables = await self._tables(deadline_s)
        if not (todo := tables.commands(remove, add)).lines:
            return self._unchanged(tables, on_commanded)
        sent, attempts, on_sent = _SentLines(), 0, on_commanded
        while todo.lines:
            attempts += 1
            try:
                await self._configure(todo.lines, sent, deadline_s=deadline_s, on_commanded=on_sent)
                break
            except DeviceError as error:
                if attempts == ATTEMPTS or protocol.DOES_NOT_EXIST not in error.text:
                    raise
                now = (await self._tables(deadline_s)).commands(remove, todo.made)
                if now == todo:  # it refuses crossconnects that are in its tables
                    raise
                todo, on_sent = now, None
        settled_ns = await self._settle(todo.made, frozenset(remove) - frozenset(add), deadline_s)
        return Exchange(
            commanded_ns=sent.first_ns, acknowledged_ns=settled_ns, commands=sent.commands, before=sent.before
        )

    async def read_overrides(self, ends: Sequence[PortSide], *, deadline_s: float) -> Mapping[PortSide, PortOverride]:
        if not ends:
            return {}
        found = await self._show(protocol.SHOW_PORT_CONFIG, protocol.read_overrides, deadline_s)
        if missing := [end for end in ends if end not in found]:
            raise ProtocolError(f"{self.name}: {protocol.SHOW_PORT_CONFIG}: no {', '.join(missing)} in the table")
        overrides: dict[PortSide, PortOverride] = {}
        for end in ends:
            state = found[end]
            if not isinstance(state, PortOverride):
                raise FailedError(
                    f"{self.name}: port {end} is {state!r}, which is not known here: neither "
                    f"{' nor '.join(protocol.OVERRIDES)}. Look it up in the manual of its firmware"
                )
            overrides[end] = state
        return overrides

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, deadline_s: float) -> None:
        """Set the state of ports, one command each on one command line."""
        if ends:
            line = " && ".join(self._by_sudo(protocol.set_port(end, to)) for end in ends)
            await self._run(line, deadline_s)

    async def lost(self) -> Exception:
        return await self._ssh.lost()

    async def close(self) -> None:
        await self._ssh.close()

    # --- steps of a change

    async def _configure(
        self,
        commands: Sequence[str],
        sent: "_SentLines",
        *,
        deadline_s: float,
        on_commanded: Callable[[int], None] | None,
    ) -> None:
        """Run commands on one line, each if the one before succeeded.

        `sent` records the time, and the optics before the first line if that is wanted.
        """
        line = " && ".join(map(self._by_sudo, commands))
        if self._options.read_before:
            line = f"{protocol.SHOW_STATUS}; {line}"
        output = await self._ssh.run(line, deadline_s=deadline_s, on_sent=on_commanded)

        def read(lines: Sequence[str]) -> tuple[tuple[Crossconnect, ...] | None, Sequence[str]]:
            if not self._options.read_before:
                return None, lines
            rows, rest = protocol.read_status(lines)
            return tuple(row.pair for row in rows), rest

        before, said = self._read(line, output.out, read)
        if sent.commands == 0:
            sent.first_ns, sent.before = output.sent_ns, before
        sent.commands += len(commands)
        done = sum(protocol.SUCCEEDED in each for each in said)
        if output.status != 0 or done < len(commands):
            words = [each for each in said if protocol.SUCCEEDED not in each]
            raise self._denied(commands[min(done, len(commands) - 1)], output, words)

    async def _settle(self, made: Sequence[Crossconnect], gone: Iterable[Crossconnect], deadline_s: float) -> int:
        """Poll until `made` is configured and tuned (or dark by an override), `gone` in no table; returns the time."""
        loop = asyncio.get_running_loop()
        began_s, finding = loop.time(), ""
        while True:
            looked_s = loop.time()
            try:
                tables = await self._tables(deadline_s)
                waiting = [pair for pair in made if tables.state(pair) is not CrossconnectState.TUNED]
                if waiting and all(tables.state(pair) is CrossconnectState.BLOCKED for pair in waiting):
                    waiting = await self._not_overridden(waiting, deadline_s)
            except DeadlineError as error:
                if finding and deadline_s - looked_s < LOOK_WITHIN_S:
                    raise FailedError(finding) from error
                raise
            rows = tables.rows
            if failed := [pair for pair in made if pair in rows and rows[pair].state is CrossconnectState.FAILED]:
                raise FailedError(
                    f"{self.name}: the switch says that {', '.join(failed)} failed. Check its ports and fibres"
                )
            left = [pair for pair in gone if pair in rows or pair in tables.configured]
            if not waiting and not left:
                return tables.received_ns
            findings = [f"does not report {pair} as tuned: it is {tables.finding(pair)}" for pair in waiting]
            findings += [f"still reports {pair}" for pair in left]
            finding = (
                f"{self.name}: it answered, but {', '.join(findings)} {loop.time() - began_s:.3g} s after the change. "
                "Check its ports and its log, then ask for it again"
            )
            if loop.time() + self._options.poll_s >= deadline_s:
                raise FailedError(finding)
            await asyncio.sleep(self._options.poll_s)

    async def _not_overridden(self, pairs: Sequence[Crossconnect], deadline_s: float) -> list[Crossconnect]:
        ends = [end for pair in pairs for end in pair.ends]
        overrides = await self.read_overrides(ends, deadline_s=deadline_s)
        return [pair for pair in pairs if all(overrides[end] is PortOverride.NORMAL for end in pair.ends)]

    def _unchanged(self, tables: Tables, on_commanded: Callable[[int], None] | None) -> Exchange:
        """The exchange where all of `remove` is gone already: no command is sent."""
        now_ns = self._context.clock.monotonic_ns()
        if on_commanded is not None:
            on_commanded(now_ns)
        return Exchange(commanded_ns=now_ns, acknowledged_ns=now_ns, commands=0, before=tuple(tables.rows))

    # --- reading

    async def _tables(self, deadline_s: float) -> Tables:
        line = f"{protocol.SHOW_CONFIG}; {protocol.SHOW_STATUS}"
        output = await self._run(line, deadline_s)

        def read(lines: Sequence[str]) -> Tables:
            configured, rest = protocol.read_config(lines)
            rows, rest = protocol.read_status(rest)
            if rest:
                raise ProtocolError(f"{rest[0][:80]!r} behind the table of states")
            by_pair = {row.pair: row for row in rows}
            if len(by_pair) != len(rows):
                raise ProtocolError("a cross-connect is twice in the table of states")
            return Tables(configured=frozenset(configured), rows=by_pair, received_ns=output.received_ns)

        return self._read(line, output.out, read)

    async def _run(self, line: str, deadline_s: float) -> SshOutput:
        output = await self._ssh.run(line, deadline_s=deadline_s)
        if output.status != 0:
            raise self._denied(line, output, [])
        return output

    async def _show(self, line: str, reader: Callable[[Sequence[str]], T], deadline_s: float) -> T:
        return self._read(line, (await self._run(line, deadline_s)).out, reader)

    def _read(self, what: str, output: bytes, reader: Callable[[Sequence[str]], T]) -> T:
        """The result of `reader`; its ProtocolError ends the session."""
        try:
            return reader(protocol.lines_of(output))
        except (ProtocolError, ConfigError) as error:
            wrong = ProtocolError(f"{self.name}: {what}: {error}")
            self._ssh.refuse(output, wrong)
            raise wrong from error

    def _denied(self, command: str, output: SshOutput, words: Sequence[str]) -> DeviceError:
        said = words or output.out.decode("utf-8", "replace").splitlines()
        said = list(itertools.chain(said, output.err.decode("utf-8", "replace").splitlines()))
        text = " ".join(" ".join(said).split())[:500]
        message = f"{self.name}: {command}: the switch says {text or 'nothing'} (exit status {output.status})"
        return DeviceError(message, device=self.name, command=command, code=str(output.status), text=text)

    def _by_sudo(self, command: str) -> str:
        return f"sudo {command}" if self._options.sudo else command


@dataclass(slots=True)
class _SentLines:
    """Result of one change's command lines: when the first was sent, the state before it, the number of commands."""

    first_ns: int = 0
    before: tuple[Crossconnect, ...] | None = None
    commands: int = 0


def _some(ends: Iterable[PortSide]) -> str:
    named = sorted(ends, key=PortSide.sort_key)
    return f"{named[0]} to {named[-1]}" if named else "none"
