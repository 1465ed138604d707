"""What tests of drivers share: a small switch, the session with a twin of a unit, and the other end of a connection."""

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities, Crossconnect, PortSide
from hwd_drivers.devices.registry import OpenContext, find
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.registry import Twin, twin_of
from hwd_drivers.twins.timing import find_timing


def pairs(text: str) -> tuple[Crossconnect, ...]:
    """The crossconnects of a text such as `1A-2B 2A-1B`."""
    return tuple(map(Crossconnect.parse, text.split()))


def ends(text: str) -> tuple[PortSide, ...]:
    return tuple(map(PortSide.parse, text.split()))


def square(size: int) -> tuple[PortSide, ...]:
    """The ends of a matrix: 1A to nA, and 1B to nB."""
    return tuple(PortSide.parse(f"{port}{side}") for side in "AB" for port in range(1, size + 1))


def capabilities(of: Iterable[PortSide], **others: Any) -> Capabilities:
    """Those of a switch with these ends; `others` are unlike the usual ones."""
    usual: dict[str, Any] = {
        "two_sided": True,
        "reciprocal": True,
        "latching": False,
        "atomic_batches": True,
        "moves_in_use": True,
        "settle_s": 0.05,
        "loss_db_typical": 1.5,
        "loss_db_max": 2.7,
    }
    return Capabilities(ends=tuple(of), **{**usual, **others})


def ids(optics: Mirror, now_ns: int = 0) -> list[str]:
    """What a mirror reports."""
    return [str(reading) for reading in optics.readings(now_ns)]


def context(driver: str, model: str, size: str | None, dialer: Dialer, clock: Clock, **others: Any) -> OpenContext:
    """How to open a session with the unit ocs1 at mem:ocs1."""
    spec = find(driver)
    usual: dict[str, Any] = {
        "name": "ocs1",
        "address": "mem:ocs1",
        "sink": no_documents,
        "user": "admin",
        "password": "root",
        "options": spec.options(),
        "capabilities": spec.capabilities(model, size),
    }
    return OpenContext(dialer=dialer, clock=clock, **{**usual, **others})


def twin(of: OpenContext, driver: str, *, address: str = "mem:ocs1", timing: str = "ideal", **options: Json) -> Twin:
    """A twin for that session."""
    return twin_of(find(driver)).make(
        name=of.name,
        capabilities=of.capabilities,
        timing=find_timing(timing),
        draws=Draws(7),
        clock=of.clock,
        dialer=of.dialer,
        address=address,
        options=options,
    )


def no_documents(document: Document) -> None:
    """The test looks at the device itself."""


class Connected(asyncio.Protocol):
    """One end of a connection, which has its transport."""

    transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport


class Recorder(Connected):
    """One end of a connection: records all calls of its transport, which tests can wait for."""

    def __init__(self, *, echo: bool = False, keep_half_open: bool = False) -> None:
        self.told: list[str | bytes] = []
        self.at_s: list[float] = []
        self.received = b""
        self.lost_with: list[Exception | None] = []
        self._echo = echo
        self._keep_half_open = keep_half_open
        self._changed = asyncio.Event()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.tell("made")

    @override
    def data_received(self, data: bytes) -> None:
        assert data
        self.received += data
        self.tell(data)
        if self._echo:
            self.transport.write(data)

    @override
    def eof_received(self) -> bool:
        self.tell("eof")
        return self._keep_half_open

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.lost_with.append(exc)
        self.tell("lost")

    @override
    def pause_writing(self) -> None:
        self.tell("pause")

    @override
    def resume_writing(self) -> None:
        self.tell("resume")

    def tell(self, what: str | bytes) -> None:
        self.told.append(what)
        self.at_s.append(asyncio.get_running_loop().time())
        self._changed.set()

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._changed.clear()
            await self._changed.wait()

    async def until_told(self, word: str) -> None:
        await self.until(lambda: word in self.told)

    async def until_received(self, size: int) -> None:
        await self.until(lambda: len(self.received) >= size)

    async def lost(self) -> Exception | None:
        """What it ended with, once it has."""
        await self.until_told("lost")
        return self.lost_with[0]


async def openssh(
    address: str, host_key: str, home: Path, *words: str, password: str, stdin: bytes = b"", terminal: bool = False
) -> tuple[int | None, str, str]:
    """What OpenSSH's own client makes of a server: strict host keys, password by askpass."""
    ask = home / "askpass"
    ask.write_text(f"#!/bin/sh\necho {password}\n")
    ask.chmod(0o700)
    host, port = address.split(":")
    (home / "known_hosts").write_text(f"[{host}]:{port} {host_key}\n")
    options = ["-F/dev/null", f"-oUserKnownHostsFile={home}/known_hosts", "-oStrictHostKeyChecking=yes"]
    options += ["-oNumberOfPasswordPrompts=1", "-p", port, *(["-tt"] if terminal else [])]
    environment = dict(os.environ, HOME=str(home), SSH_ASKPASS=str(ask), SSH_ASKPASS_REQUIRE="force", TERM="xterm")
    process = await asyncio.create_subprocess_exec(
        "ssh", *options, *words[:-1], f"admin@{host}", *words[-1:], env=environment,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(stdin), 60)
    return process.returncode, out.decode(), err.decode()
