"""A broker with two hosts and their users, embedded or a real Mosquitto."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hwd.bus.broker import EmbeddedBroker, Logins, UserRights
from hwd.bus.broker.mosquitto import mosquitto_files
from hwd_drivers.core.ids import RandomIds

from ...agents.bus.conftest import Mosquitto


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
    files = mosquitto_files(logins, folder)
    for name, text in files.items():
        (folder / name).write_text(text)
    process = await Mosquitto.start(folder, files["hwd.conf"])
    try:
        yield f"mqtt://127.0.0.1:{process.port}"
    finally:
        await process.kill()
