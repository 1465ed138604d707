"""The network of a twin host, and what is closed at the end of a test."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hwd.twin.kernel import Keeper


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    async with Keeper() as keeper:
        await keeper.start(["h0"], tmp_path / "run")
        yield keeper
