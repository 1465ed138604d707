"""The daemon that a command asks, and who asks it."""

import socket
from typing import TYPE_CHECKING

from hwd_drivers.core.own_python import uncollected
from hwd_drivers.core.user import user_name

if TYPE_CHECKING:
    from hwd.client import Client


def connect(url: str | None, *, testbed: str | None = None) -> "Client":
    """The client of the daemon at --url, else of HWD_URL, else of this user here. Its import takes longer than all else
    of a command, and help and completion do without.
    """
    with uncollected():
        from hwd.client import Client
    return Client.find(url, testbed=testbed)


def me() -> str:
    """Who asks, and the holder of leases that are taken here."""
    return f"{user_name()}@{socket.gethostname()}"
