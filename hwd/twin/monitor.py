"""The monitor of a virtual machine (QMP of QEMU): connects and disconnects the cables of its NICs.

The machine's own driver sees that as a real carrier event; a tap device cannot produce one.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError, ProtocolError
from hwd_drivers.core.reason import reason_of

AGAIN_AFTER_S: Final = 0.2
"""Between two attempts to reach a machine that is off: it takes seconds from its start until its kernel
looks at a cable.
"""

log = logging.getLogger(__name__)


class MachineMonitor:
    """Sets the cables of one machine, also again when the machine is restarted.

    monitor = MachineMonitor("h0", run_dir / "h0.monitor", clock)
    task = asyncio.create_task(monitor.run())
    monitor.set("hwd-eth0", up=True, on_set=lambda before_ns, after_ns: ...)
    """

    def __init__(self, host: str, path: Path, clock: Clock) -> None:
        self._host = host
        self._path = path
        self._clock = clock
        self._cables: dict[str, bool] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Callable[[], None]] = {}

    def set(self, nic: str, *, up: bool, on_set: Callable[[int, int], None]) -> None:
        """Connect the cable of a NIC, or disconnect it; `on_set` gets the stamps before and after. Immediately, while
        no machine is connected.
        """
        self._cables[nic] = up
        before_ns = self._clock.monotonic_ns()
        if self._writer is None:
            on_set(before_ns, before_ns)
        else:
            self._ask("set_link", {"name": nic, "up": up}, lambda: on_set(before_ns, self._clock.monotonic_ns()))

    async def run(self) -> None:
        """Stay connected until cancelled."""
        away = False
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path)
            except OSError:
                await asyncio.sleep(AGAIN_AFTER_S)
                continue
            try:
                await self._live(reader, writer)
            except (OSError, LinkError, ProtocolError) as error:
                log.log(
                    logging.DEBUG if away else logging.INFO,
                    "%s: its machine has disconnected: %s",
                    self._host,
                    reason_of(error),
                )
                away = True
            finally:
                self._writer = None
                waiting, self._waiting = self._waiting, {}
                writer.transport.abort()
                for done in waiting.values():
                    done()

    async def _live(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until its end, which it raises."""
        if "QMP" not in await _said(reader):
            raise ProtocolError(f"{self._path}: it does not greet as QEMU's monitor does")
        self._writer = writer
        self._ask("qmp_capabilities", {}, lambda: log.info("%s: its machine is connected", self._host))
        for nic, up in self._cables.items():
            self._ask("set_link", {"name": nic, "up": up}, lambda: None)
        while True:
            said = await _said(reader)
            done = self._waiting.pop(said.get("id", 0), None)
            if "error" in said:
                log.warning("%s: its machine refuses: %s", self._host, said["error"].get("desc"))
            if done is not None:
                done()

    def _ask(self, command: str, arguments: dict[str, object], done: Callable[[], None]) -> None:
        assert self._writer is not None
        number = next(self._numbers)
        self._waiting[number] = done
        self._writer.write(json.dumps({"execute": command, "arguments": arguments, "id": number}).encode() + b"\n")


async def _said(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next message. Raises LinkError at the end, ProtocolError for what is no message."""
    try:
        line = await reader.readline()
        if not line:
            raise LinkError("it hung up")
        said = json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"its monitor says what is not JSON: {error}") from error
    if not isinstance(said, dict):
        raise ProtocolError(f"its monitor says {said!r}")
    return said
