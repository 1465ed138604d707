"""A real Mosquitto, and buses that run for as long as a test needs them."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hwd.bus.broker import EmbeddedBroker
from hwd_agents.bus.protocol import Bus

PATIENCE_S = 20.0


@contextlib.asynccontextmanager
async def running(*buses: Bus) -> AsyncIterator[None]:
    """Run the buses, from when all are up."""
    ups = [asyncio.Event() for _ in buses]
    for bus, up in zip(buses, ups, strict=True):
        bus.on_up(up.set)
    runs = [asyncio.create_task(bus.run()) for bus in buses]
    try:
        async with asyncio.timeout(PATIENCE_S):
            for run, up in zip(runs, ups, strict=True):
                waiting = asyncio.create_task(up.wait())
                await asyncio.wait([run, waiting], return_when=asyncio.FIRST_COMPLETED)
                if run.done():
                    waiting.cancel()
                    run.result()
        yield
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


@pytest.fixture
async def start_mosquitto(
    tmp_path: Path,
) -> AsyncIterator[Callable[..., Awaitable[tuple[str, Callable[[], Awaitable[None]]]]]]:
    """Start one on a free port of loopback and on the Unix socket `m.sock`: `url, kill = await
    start_mosquitto("allow_anonymous true")`.

    With the file of a certificate and its key the port speaks TLS.
    """
    started: list[Mosquitto] = []

    async def start(
        config: str = "allow_anonymous true", *, pem: Path | None = None
    ) -> tuple[str, Callable[[], Awaitable[None]]]:
        started.append(await Mosquitto.start(tmp_path, config, pem))
        return f"{'mqtt' if pem is None else 'mqtts'}://127.0.0.1:{started[-1].port}", started[-1].kill

    yield start
    for each in started:
        await each.kill()


async def start_amqtt() -> tuple[str, Callable[[], Awaitable[None]]]:
    broker = EmbeddedBroker()
    return await broker.start(), broker.close


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Of an embedded broker."""
    url, close = await start_amqtt()
    yield url
    await close()


class Mosquitto:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.port = port
        self._process = process

    @classmethod
    async def start(cls, folder: Path, more: str, pem: Path | None = None) -> "Mosquitto":
        program = shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
        if program is None:
            pytest.skip("needs mosquitto: apt-get install mosquitto")
        config = folder / "mosquitto.conf"
        said = b""
        for _ in range(5):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            tls = "" if pem is None else f"certfile {pem}\nkeyfile {pem}\n"
            listeners = f"listener {port} 127.0.0.1\n{tls}listener 0 {folder / 'm.sock'}"
            # As root it would become the user mosquitto, who may not write here.
            config.write_text(f"{listeners}\nuser root\nset_tcp_nodelay true\n{more}\n")
            process = await asyncio.create_subprocess_exec(program, "-c", str(config), stderr=subprocess.PIPE)
            assert process.stderr is not None
            async with asyncio.timeout(PATIENCE_S):
                while line := await process.stderr.readline():
                    said += line
                    if b" running" in line:
                        return cls(process, port)
            await process.wait()  # somebody took the port in between
        raise AssertionError(f"mosquitto does not start: {said.decode()}")

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            assert self._process.stderr is not None
            await self._process.stderr.read()
            await self._process.wait()
