"""broker_addresses: the IP addresses of the broker, from its URL or by a look-up of its name."""

import asyncio
import socket
from collections.abc import Sequence

from hwd_agents.bus.mqtt import BrokerUrl
from hwd_agents.process.config import AgentConfig, broker_url
from hwd_drivers.core.errors import LinkError


async def broker_addresses(config: AgentConfig) -> Sequence[str]:
    """All addresses, since any may be in use; none for a Unix socket.

    Raises LinkError when the name cannot be resolved, HwdError when there is no URL.
    """
    url = BrokerUrl.parse(broker_url(config))
    if url.transport == "unix":
        return ()
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LinkError(
            f"{url.host}: cannot find the address of the broker, so its route is not known: {error.strerror}. "
            "Write its address into the agent's file"
        ) from error
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))
