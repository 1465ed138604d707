"""Memory of one process with 2,000 twin switches that listen, each asked and moved once."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from typing_extensions import override

from bench.child import child
from bench.measure import Bar
from bench.progress import Progress
from hwd_drivers.transports.dial import TcpDialer

DRIVER, MODEL, SIZE, TIMING = "osw", "osw", "16x4", "lowradix-8ms"
TWINS = 2000
LIMIT_MB = 1000.0
ASK = b"<OSW_OUT_" + b"_".join([b"02"] * 16) + b"><OSW_OUT_?>"
ANSWER = b"<OSW_OUT_OK>" + ASK[: ASK.index(b">") + 1]
ANSWERED_WITHIN_S = 60.0
SPARE_FILES = 200


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    count = TWINS // 10 if quick else TWINS
    with _files(2 * count + SPARE_FILES):
        async with child("bench.processes.twins", SIZE, str(count), DRIVER, MODEL, TIMING) as twins:
            progress.say(f"twins: {count} in one process, a session with each")
            addresses = (await twins.hear()).split()
            listening_mb = _resident_mb(twins.process.pid)
            async with asyncio.timeout(ANSWERED_WITHIN_S), contextlib.AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(_asked(address)) for address in addresses]
                for client in clients:
                    await client.done
                moved_mb = _resident_mb(twins.process.pid)
    return [
        Bar(
            name=f"memory of {TWINS} twin switches in one process",
            value=moved_mb * TWINS / count,
            limit=LIMIT_MB,
            unit="MB",
            spread=(
                f"{listening_mb:.0f} MB when {count} listen, "
                f"{moved_mb:.0f} with a session at each that moved its 16 elements"
            ),
            n=count,
        )
    ]


class _Client(asyncio.Protocol):
    """Moves all elements of a twin and reads them back."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(ASK)

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received == ANSWER:
            self.done.set_result(None)


@contextlib.asynccontextmanager
async def _asked(address: str) -> AsyncIterator[_Client]:
    transport, client = await TcpDialer().connect(_Client, address)
    try:
        yield client
    finally:
        transport.close()


@contextlib.contextmanager
def _files(count: int) -> Iterator[None]:
    """Let this process and its children open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise EOFError(f"process {pid} of the bench ended")
