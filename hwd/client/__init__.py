"""The Python client of a daemon, in a blocking and an asyncio form.

from hwd.client import Client
with Client.find() as hwd:
    hwd.apply(what="ring hosts=h0,h1", ready_within_s=15)
"""

from hwd.client.async_client import AsyncClient
from hwd.client.client import Client
from hwd.client.event_stream import Event
from hwd.client.find import find_daemon

__all__ = ["AsyncClient", "Client", "Event", "find_daemon"]
