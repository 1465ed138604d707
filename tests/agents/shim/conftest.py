"""Agents that answer ranks, a thread for these, which block, and shims of another package."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from hwd_drivers.core.offload import ThreadOffload

from ..played_daemon import GRANTED, JOINED, HostWithDaemon

T = TypeVar("T", bound=HostWithDaemon)
MODULE = """
from hwd_agents.shim import Ask, Go, Select, SendOver, ShimKind

class Scripted:
    def __init__(self, arguments, rank, job):
        self.arguments, self.rank, self.job = arguments, rank, job

    def before(self, operation):
        match operation.kind:
            case "all-reduce":
                return Select(positions={"sel0": "in-2"}, within_s=2.0)
            case "send":
                return SendOver(f"eth{self.arguments['from']}")
            case _:
                return Ask()

    def after(self, operation):
        return Select(positions={"sel0": "in-1"}) if operation.kind == "all-reduce" else Go()

SCRIPTED = ShimKind(make=Scripted, arguments=("from",))
NONE = Scripted
"""


class Host(HostWithDaemon):
    """And a thread for its ranks, which block."""

    thread: ThreadOffload


def answering(host: T) -> T:
    """The daemon lets every rank join and go at once."""
    host.reactions = {
        "join-job": lambda ask: JOINED,
        "claim-operation": lambda ask: GRANTED,
        "end-operation": lambda ask: {},
        "end-transfers": lambda ask: {},
    }
    return host


@pytest.fixture
async def host(tmp_path: Path, thread: ThreadOffload) -> AsyncIterator[Host]:
    async with answering(Host(tmp_path / "t.sock")) as host:
        host.thread = thread
        yield host


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Install the package `acme` with these entry points of shims."""
    site = tmp_path / "site"

    def declare(points: str) -> None:
        info = site / "acme-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (site / "acme_shims.py").write_text(MODULE)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hwd.shims]\n{points}\n")
        monkeypatch.syspath_prepend(site)

    yield declare
    sys.modules.pop("acme_shims", None)
