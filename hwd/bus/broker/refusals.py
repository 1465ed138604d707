"""Refusals: whom the embedded broker did not let in, or cut off, said without letting them flood the log."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0
"""Between two lines about one client and one reason; the next one says how many there were."""
KEYS_MOST: Final = 64
"""Names are made up by whoever connects: beyond these they count together."""
TEXT_MOST: Final = 100


class Refusals:
    """`note` logs.

    `call(client id, why)` of `on_note` is for the status of the host whose agent it may be: anybody may have said that
    id.
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
        said_s, count = self._tallies.get(key, (now_s - EVERY_S, 0))
        count += 1
        if now_s - said_s >= EVERY_S:
            who = f"client {key[0]}" if key[0] else "a client"
            at = f" at {_plain(peer)}" if peer else ""
            times = f" ({count} times since it was last said)" if count > 1 else ""
            log.warning("broker: %s%s: %s%s", who, at, key[1], times)
            said_s, count = now_s, 0
        self._tallies[key] = (said_s, count)
        for call in self._calls:
            call(client_id, why)

    def _forget(self, now_s: float) -> None:
        """What was said long ago and has not come since.

        What came since is said with the next of its kind, so it is kept as long again.
        """
        old = [key for key, (said_s, count) in self._tallies.items() if now_s - said_s >= EVERY_S * (2 if count else 1)]
        for key in old:
            del self._tallies[key]


def _plain(text: str) -> str:
    """Without what would forge lines, or move the cursor of a terminal."""
    shown = "".join(one if one.isprintable() else "?" for one in text)
    return shown if len(shown) <= TEXT_MOST else f"{shown[:TEXT_MOST]}..."
