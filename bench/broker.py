"""mosquitto: runs a real Mosquitto on a free port for the time of a `with` block."""

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

PATHS = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"
TRIES = 5
SETTINGS = "user root\nallow_anonymous true\nset_tcp_nodelay true\nmax_queued_messages 0\n"
"""`max_queued_messages 0` means no limit: Mosquitto then drops no message for a slow subscriber."""


class MosquittoMissingError(Exception):
    """Mosquitto is not installed on this machine."""


@contextlib.asynccontextmanager
async def mosquitto(folder: Path) -> AsyncIterator[int]:
    """Run it; yields its port on loopback. Raises MosquittoMissingError where it is not installed."""
    program = shutil.which("mosquitto", path=PATHS)
    if program is None:
        raise MosquittoMissingError("mosquitto is not installed; apt-get install mosquitto")
    process, port = await _start(program, folder / "mosquitto.conf")
    try:
        yield port
    finally:
        process.kill()
        await process.wait()


async def _start(program: str, config: Path) -> tuple[asyncio.subprocess.Process, int]:
    for _ in range(TRIES):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config.write_text(f"listener {port} 127.0.0.1\n" + SETTINGS)
        process = await asyncio.create_subprocess_exec(program, "-c", str(config), stderr=asyncio.subprocess.DEVNULL)
        if await _answers(process, port):
            return process, port
        await process.wait()  # somebody took the port in between
    raise ChildProcessError(f"mosquitto: did not start on any of {TRIES} ports")


async def _answers(process: asyncio.subprocess.Process, port: int) -> bool:
    while process.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            await writer.wait_closed()
            return True
    return False
