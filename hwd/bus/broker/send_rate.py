"""SendRate: how fast the clients of one user may send to the embedded broker, whose queues have no end."""

import asyncio
from typing import Final

from hwd_agents.probes.token_bucket import Bucket

PACKETS_PER_S, PACKETS_MOST = 1000, 4000
"""An agent gathers its events for 20 ms: it sends some 50 messages a second."""
BYTES_PER_S: Final = 4 << 20
"""16 times the events that are taken of a host in the long run."""
BYTES_MOST: Final = 16 << 20
"""A full spool, as large as it is by default."""


class SendRate:
    """Whoever sends faster waits.

    Nothing is read from its connection meanwhile, so that TCP holds it up; nothing is lost.
    """

    def __init__(self) -> None:
        self._packets = Bucket(per_s=PACKETS_PER_S, most=PACKETS_MOST)
        self._bytes = Bucket(per_s=BYTES_PER_S, most=BYTES_MOST)

    async def wait(self, size_bytes: int) -> None:
        """Until a packet of this size, of `BYTES_MOST` at most, may come in."""
        await _take(self._packets, 1)
        await _take(self._bytes, size_bytes)


async def _take(bucket: Bucket, tokens: int) -> None:
    while not bucket.take(tokens):  # noqa: ASYNC110 - it fills with time
        await asyncio.sleep(bucket.wait_s(tokens))
