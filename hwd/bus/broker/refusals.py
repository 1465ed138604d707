"""Refusals: logs which clients the embedded broker refused or disconnected, at a limited rate."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hwd.model.plural import plural

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0
"""The least time between two lines about one client and one reason; a line says how many refusals it stands for."""
KEYS_MOST: Final = 64
"""Clients choose their names: more than this many are counted together."""
TEXT_MOST: Final = 100


class Refusals:
    """Counts refusals by client id and reason.

    Calls of `on_note` get (client id, why) for the status of the host with that id; any client can claim any id.
    """

    def __init__(self) -> None:
        self._calls: list[Callable[[str, str], None]] = []
        self._tallies: dict[tuple[str, str], tuple[float, int]] = {}

    def on_note(self, call: Callable[[str, str], None]) -> None:
        self._calls.append(call)

    def note(self, client_id: str, peer: str, why: str) -> None:
        now_s = asyncio.get_running_loop().time()
        key = (_plain(client_id), _plain(why))
        if key not in self._tallies and len(self._tallies) >= KEYS_MOST:
            self._forget(now_s)
        if key not in self._tallies and len(self._tallies) >= KEYS_MOST:
            key = ("", "others were refused, or cut off")
        logged_s, count = self._tallies.get(key, (now_s - EVERY_S, 0))
        count += 1
        if now_s - logged_s >= EVERY_S:
            who = f"client {key[0]}" if key[0] else "a client"
            at = f" at {_plain(peer)}" if peer else ""
            times = f" ({plural(count, 'time')} since it was last said)" if count > 1 else ""
            log.warning("broker: %s%s: %s%s", who, at, key[1], times)
            logged_s, count = now_s, 0
        self._tallies[key] = (logged_s, count)
        for call in self._calls:
            call(client_id, why)

    def _forget(self, now_s: float) -> None:
        """Delete tallies whose line is old.

        A tally with refusals since its line stays twice as long, as the next line has to count them.
        """
        old = [
            key for key, (logged_s, count) in self._tallies.items() if now_s - logged_s >= EVERY_S * (2 if count else 1)
        ]
        for key in old:
            del self._tallies[key]


def _plain(text: str) -> str:
    """The text without characters that would forge log lines or control a terminal."""
    text = "".join(one if one.isprintable() else "?" for one in text)
    return text if len(text) <= TEXT_MOST else f"{text[:TEXT_MOST]}..."
