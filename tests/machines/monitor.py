"""The monitor of a machine (QMP), a call at a time."""

import json
import re
import socket
from pathlib import Path
from typing import Any, Final

ANSWER_WITHIN_S: Final = 20.0
"""It takes a millisecond, but the processors may be busy with the machine itself."""


class Monitor:
    """Each call connects, asks and disconnects: nothing is held between two calls, so that any event loop may call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, command: str, **arguments: object) -> Any:
        """What it returns. Raises RuntimeError with its words."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_WITHIN_S)
            connection.connect(str(self._path))
            with connection.makefile("rwb") as wire:
                wire.readline()  # its greeting
                _exchange(wire, "qmp_capabilities", {})
                return _exchange(wire, command, arguments)

    def set_carrier(self, nic: str, up: bool) -> None:
        """Plug the cable of a NIC in or pull it, as its driver sees it."""
        self.ask("set_link", name=nic, up=up)

    def forwarded(self) -> dict[int, int]:
        """By port of the machine, the port on 127.0.0.1 that leads there."""
        told: str = self.ask("human-monitor-command", **{"command-line": "info usernet"})
        found = re.findall(r"HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)", told)
        return {int(there): int(here) for here, there in found}


def _exchange(wire: Any, command: str, arguments: dict[str, object]) -> Any:
    wire.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
    wire.flush()
    while line := wire.readline():
        said = json.loads(line)
        if "error" in said:
            raise RuntimeError(f"{command}: {said['error']['desc']}")
        if "return" in said:
            return said["return"]
    raise RuntimeError(f"{command}: the machine is gone")
