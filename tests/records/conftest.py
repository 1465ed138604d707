"""Records on a file and in memory, called as the daemon calls them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hwd.model.recorded_run import Run
from hwd.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload, ThreadOffload

from .facts import power

Restart = Callable[..., Awaitable[Records]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/records.db"


@pytest.fixture
async def restart(url: str) -> AsyncIterator[Restart]:
    """The records on one file, by each call as the next daemon opens them; those before were closed."""
    opened: list[Records] = []

    async def restart(**options: Any) -> Records:
        for one in opened:
            one.close()
        opened[:] = [Records(url, InlineOffload(), **options)]
        await opened[0].open()
        return opened[0]

    yield restart
    for one in opened:
        one.close()


@pytest.fixture
async def records(url: str) -> AsyncIterator[Records]:
    """On a file, through threads."""
    offload = ThreadOffload(4)
    opened = Records(url, offload)
    await opened.open()
    yield opened
    opened.close()
    offload.close()


@pytest.fixture
async def memory() -> AsyncIterator[Records]:
    """In memory, inline: as simulations have it."""
    opened = Records("sqlite://", InlineOffload(), unowned_kept=300)
    await opened.open()
    yield opened
    opened.close()


@pytest.fixture
def started() -> Run:
    return Run(
        id="20270110-a1b2",
        playbook="smoke",
        playbook_text="playbook: smoke\n",
        testbed="two-rails",
        testbed_text="testbed: two-rails\n",
        parameters={"repeats": 10},
        inventory={"switches": {"ocs1": {"serial": "0042"}}},
        version="0.1.0",
        commit="f934739",
        started_wall_ns=1_000,
        virtual_time=True,
    )


@pytest.fixture
def flood() -> list[Document]:
    return [power(n) for n in range(3_000)]
