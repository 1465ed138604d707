"""SendRate: limits how fast the clients of one user may send to the embedded broker, whose queues have no limit."""

import asyncio
from typing import Final

from hwd_agents.probes.token_bucket import Bucket

PACKETS_PER_S, PACKETS_MOST = 1000, 4000
"""An agent collects its events for 20 ms: it sends some 50 messages a second."""
BYTES_PER_S: Final = 4 << 20
"""16 times the rate at which events of a host are accepted in the long run."""
BYTES_MOST: Final = 16 << 20
"""A full spool of the default size."""


class SendRate:
    """Token buckets for packets and bytes.

    While a client waits, nothing is read from its connection: TCP slows the sender down, and nothing is lost.
    """

    def __init__(self) -> None:
        self._packets = Bucket(per_s=PACKETS_PER_S, most=PACKETS_MOST)
        self._bytes = Bucket(per_s=BYTES_PER_S, most=BYTES_MOST)

    async def wait(self, size_bytes: int) -> None:
        """Wait until a packet of this size, `BYTES_MOST` at most, may be read."""
        await _take(self._packets, 1)
        await _take(self._bytes, size_bytes)


async def _take(bucket: Bucket, tokens: int) -> None:
    while not bucket.take(tokens):  # noqa: ASYNC110 - it fills with time
        await asyncio.sleep(bucket.wait_s(tokens))
