"""The Python client of a daemon, for programs that wait and for coroutines.

from hwd.client import Client
with Client.find() as hwd:
    hwd.apply(what="ring hosts=h0,h1", ready_within_s=15)
"""

from hwd.client.aclient import AsyncClient
from hwd.client.client import Client
from hwd.client.events import Event
from hwd.client.find import find_daemon

__all__ = ["AsyncClient", "Client", "Event", "find_daemon"]
