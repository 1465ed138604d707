"""The driver of SONiC optical switches: commands over one SSH session."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.kit.errors import BugError, ConfigError, DeadlineError, DeviceError, FailedError, ProtocolError
from hwd_drivers.kit.registry import OpenContext
from hwd_drivers.kit.ssh import SshLogin, SshOutput, SshSession
from hwd_drivers.kit.ssh_keys import HostTrust
from hwd_drivers.kit.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    CrossconnectState,
    Exchange,
    Identity,
    PortOverride,
    PortSide,
)
from hwd_drivers.sonic import protocol
from hwd_drivers.sonic.protocol import Mode, Row

T = TypeVar("T")


class SonicOptions(BaseModel):
    """What a testbed may say of a SONiC optical switch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    login_within_s: float = Field(default=10.0, gt=0, description="limit for connecting and logging in")
    poll_s: float = Field(default=0.1, gt=0, description="time between looks at crossconnects that are tuning")
    sudo: bool = Field(default=True, description="config commands are run by sudo")
    host_key: str | None = Field(
        default=None, description="the switch's SSH host key, ssh-ed25519 AAAA..., or its fingerprint, SHA256:..."
    )
    known_hosts: Path | None = Field(default=None, description="a file of host keys in OpenSSH's format")
    trust_first: bool = Field(
        default=False, description="write the key of a host that known_hosts lacks to it, and trust it from then on"
    )
    key_file: Path | None = Field(default=None, description="private key to log in with, in place of the password")
    read_before: bool = Field(
        default=True,
        description="read the crossconnects in the same command line as each change, to see what it takes away",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """What is configured, and what the optics have."""

    configured: frozenset[Crossconnect]
    rows: Mapping[Crossconnect, Row]
    received_ns: int

    @property
    def stale(self) -> frozenset[Crossconnect]:
        """In the optics and not configured."""
        return frozenset(self.rows) - self.configured


class SonicSwitch:
    """One session with one switch; open it with `SonicSwitch.open`."""

    def __init__(self, context: OpenContext, options: SonicOptions, ssh: SshSession) -> None:
        self.name = context.name
        self._context = context
        self._options = options
        self._ssh = ssh

    @classmethod
    async def open(cls, context: OpenContext) -> "SonicSwitch":
        """Connect and log in. Raises LoginError where the switch does not take user or password, ConfigError where nobody vouches for its key."""
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
        output = await self._show(protocol.SHOW_VERSION, deadline_s)
        version = self._read(protocol.SHOW_VERSION, output, lambda lines: protocol.read_version("\n".join(lines)))
        return Identity(vendor="SONiC", model=version.hardware, serial=version.serial, firmware=version.software)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Those of the stated model. Raises ConfigError where the switch has other ports."""
        output = await self._show(protocol.SHOW_PORT_CONFIG, deadline_s)
        found = self._read(protocol.SHOW_PORT_CONFIG, output, protocol.read_overrides)
        stated = self._context.capabilities
        if found.keys() != set(stated.ends):
            raise ConfigError(
                f"{self.name}: the switch has {len(found)} ports, {_some(found)}; the testbed says {len(stated.ends)}, "
                f"{_some(stated.ends)}. Correct its size in the testbed file"
            )
        return stated

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        """What the optics have, configured or not; what is configured and not in the optics reads as failed."""
        tables = await self._tables(deadline_s)
        states = dict.fromkeys(tables.configured, CrossconnectState.FAILED)
        states |= {pair: row.state for pair, row in tables.rows.items()}
        return tuple(
            CrossconnectReading(crossconnect=pair, state=states[pair])
            for pair in sorted(states, key=Crossconnect.sort_key)
        )

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One command line: what `add` does not replace is deleted, then `add` is made in mode update. Returns when all of it is tuned.

        A crossconnect that is only in the optics cannot be deleted, and would stay beside a new one: it is configured first, then deleted.
        """
        if not remove and not add:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        taken = {end for pair in add for end in pair.ends}
        tables = await self._tables(deadline_s)
        stale = [
            pair
            for pair in sorted(tables.stale, key=Crossconnect.sort_key)
            if pair not in add and (pair in remove or not taken.isdisjoint(pair.ends))
        ]
        gone = [pair for pair in remove if pair in tables.configured and taken.isdisjoint(pair.ends)] + stale
        commands = [protocol.add(stale, Mode.UPDATE)] if stale else []
        commands += [protocol.delete(gone)] if gone else []
        commands += [protocol.add(add, Mode.UPDATE)] if add else []
        if not commands:
            return self._nothing(tables, on_commanded)
        output, before = await self._configure(commands, deadline_s=deadline_s, on_commanded=on_commanded)
        settled_ns = await self._settle(add, frozenset(remove) - frozenset(add), deadline_s)
        return Exchange(commanded_ns=output.sent_ns, acknowledged_ns=settled_ns, commands=len(commands), before=before)

    async def read_overrides(self, ends: Sequence[PortSide], *, deadline_s: float) -> Mapping[PortSide, PortOverride]:
        if not ends:
            return {}
        output = await self._show(protocol.SHOW_PORT_CONFIG, deadline_s)
        found = self._read(protocol.SHOW_PORT_CONFIG, output, protocol.read_overrides)
        if missing := [str(end) for end in ends if end not in found]:
            raise ProtocolError(f"{self.name}: {protocol.SHOW_PORT_CONFIG}: no {', '.join(missing)} in the table")
        return {end: found[end] for end in ends}

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, deadline_s: float) -> None:
        """By the state of the ports, one command each on one command line."""
        if ends:
            line = " && ".join(self._by_sudo(protocol.set_port(end, to)) for end in ends)
            await self._show(line, deadline_s)

    async def lost(self) -> Exception:
        return await self._ssh.lost()

    async def close(self) -> None:
        await self._ssh.close()

    # --- steps of a change

    async def _configure(
        self, commands: Sequence[str], *, deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> tuple[SshOutput, tuple[Crossconnect, ...] | None]:
        """Run them on one line, each if the one before was done; what the optics had before, if that is asked for."""
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
        done = sum(protocol.SUCCEEDED in each for each in said)
        if output.status != 0 or done < len(commands):
            words = [each for each in said if protocol.SUCCEEDED not in each]
            raise self._denied(commands[min(done, len(commands) - 1)], output, words)
        return output, before

    async def _settle(self, made: Sequence[Crossconnect], gone: Iterable[Crossconnect], deadline_s: float) -> int:
        """Look until all of `made` is tuned, or held dark by a port override, and nothing of `gone` is left; returns when that was seen."""
        loop = asyncio.get_running_loop()
        allowed_s = deadline_s - loop.time()
        while True:
            tables = await self._tables(deadline_s)
            states = {pair: row.state for pair, row in tables.rows.items()}
            if failed := [pair for pair in made if states.get(pair) is CrossconnectState.FAILED]:
                raise FailedError(
                    f"{self.name}: the switch says that {_list(failed)} failed. Look at its ports and fibres"
                )
            waiting = [pair for pair in made if states.get(pair) is not CrossconnectState.TUNED]
            if waiting and all(states.get(pair) is CrossconnectState.BLOCKED for pair in waiting):
                waiting = await self._not_overridden(waiting, deadline_s)
            left = [pair for pair in gone if pair in states]
            if not waiting and not left:
                return tables.received_ns
            if loop.time() + self._options.poll_s >= deadline_s:
                told = [f"{pair} is {states.get(pair, 'not there')}" for pair in waiting] + [
                    f"{pair} is still there" for pair in left
                ]
                raise DeadlineError(f"{self.name}: not tuned within {allowed_s:.3g} s: {', '.join(told)}")
            await asyncio.sleep(self._options.poll_s)

    async def _not_overridden(self, pairs: Sequence[Crossconnect], deadline_s: float) -> list[Crossconnect]:
        ends = [end for pair in pairs for end in pair.ends]
        overrides = await self.read_overrides(ends, deadline_s=deadline_s)
        return [pair for pair in pairs if all(overrides[end] is PortOverride.NORMAL for end in pair.ends)]

    def _nothing(self, tables: _Tables, on_commanded: Callable[[int], None] | None) -> Exchange:
        """All that was to go is gone already: no command is sent."""
        now_ns = self._context.clock.monotonic_ns()
        if on_commanded is not None:
            on_commanded(now_ns)
        return Exchange(commanded_ns=now_ns, acknowledged_ns=now_ns, commands=0, before=tuple(tables.rows))

    # --- reading

    async def _tables(self, deadline_s: float) -> _Tables:
        line = f"{protocol.SHOW_CONFIG}; {protocol.SHOW_STATUS}"
        output = await self._ssh.run(line, deadline_s=deadline_s)
        if output.status != 0:
            raise self._denied(line, output, [])

        def read(lines: Sequence[str]) -> _Tables:
            configured, rest = protocol.read_config(lines)
            rows, rest = protocol.read_status(rest)
            if rest:
                raise ProtocolError(f"{rest[0][:80]!r} behind the table of states")
            by_pair = {row.pair: row for row in rows}
            if len(by_pair) != len(rows):
                raise ProtocolError("a cross-connect stands twice in the table of states")
            return _Tables(configured=frozenset(configured), rows=by_pair, received_ns=output.received_ns)

        return self._read(line, output.out, read)

    async def _show(self, line: str, deadline_s: float) -> bytes:
        output = await self._ssh.run(line, deadline_s=deadline_s)
        if output.status != 0:
            raise self._denied(line, output, [])
        return output.out

    def _read(self, what: str, output: bytes, reader: Callable[[Sequence[str]], T]) -> T:
        """What `reader` finds; its ProtocolError ends the session."""
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


def _list(pairs: Iterable[Crossconnect]) -> str:
    return ", ".join(map(str, pairs))


def _some(ends: Iterable[PortSide]) -> str:
    named = sorted(ends, key=PortSide.sort_key)
    return f"{named[0]} to {named[-1]}" if named else "none"
