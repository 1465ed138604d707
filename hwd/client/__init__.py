"""The Python client of a daemon, in a blocking and an asyncio form.

from hwd.client import Client
with Client.find() as hwd:
    hwd.apply(what="ring hosts=h0,h1", ready_within_s=15)
"""

from typing import TYPE_CHECKING

from hwd.client.client import Client
from hwd.client.event_stream import Event
from hwd.client.find import find_daemon

if TYPE_CHECKING:
    from hwd.client.async_client import AsyncClient

__all__ = ["AsyncClient", "Client", "Event", "find_daemon"]


def __getattr__(name: str) -> object:
    """Import AsyncClient on first use: asyncio takes 50 ms to import, a sixth of what `hwd status` may take."""
    if name == "AsyncClient":
        from hwd.client.async_client import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
