"""A broker with two hosts and their users, embedded or a real Mosquitto."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hwd.bus.broker import EmbeddedBroker, Logins, UserRights
from hwd.bus.broker.mosquitto import mosquitto_files
from hwd_drivers.core.ids import RandomIds

PATIENCE_S = 20.0


@dataclass(frozen=True)
class Place:
    """`url` names no user."""

    url: str
    logins: Logins

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("mqtt://").rpartition(":")
        return host, int(port)


@pytest.fixture(params=["embedded", "mosquitto"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    logins = Logins.from_folder(UserRights(testbed="lab", hosts=frozenset({"h0", "h1"})), tmp_path, RandomIds())
    async with (embedded if request.param == "embedded" else mosquitto)(logins, tmp_path) as url:
        yield Place(url, logins)


@asynccontextmanager
async def embedded(logins: Logins, folder: Path) -> AsyncIterator[str]:
    broker = EmbeddedBroker(users=logins.users, rights=logins.rights)
    try:
        yield await broker.start()
    finally:
        await broker.close()


@asynccontextmanager
async def mosquitto(logins: Logins, folder: Path) -> AsyncIterator[str]:
    program = shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
    if program is None:
        pytest.skip("needs mosquitto: apt-get install mosquitto")
    files = mosquitto_files(logins, folder)
    for name, text in files.items():
        (folder / name).write_text(text)
    while True:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (folder / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nuser root\n{files['hwd.conf']}")
        process = await asyncio.create_subprocess_exec(
            program, "-c", str(folder / "mosquitto.conf"), stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            said = b""
            while b" running" not in said and (line := await process.stderr.readline()):
                said += line
        if b" running" in said:
            break
        assert b"Address already in use" in said, said.decode()
        await process.wait()
    reading = asyncio.create_task(process.stderr.read())
    try:
        yield f"mqtt://127.0.0.1:{port}"
    finally:
        process.kill()
        await reading
        await process.wait()
