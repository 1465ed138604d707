"""The addresses of the broker, as its URL says or its name stands for now."""

import asyncio
import socket
from collections.abc import Sequence

from hwd_agents.bus.mqtt import BrokerUrl
from hwd_agents.process.config import AgentConfig, broker_url
from hwd_drivers.core.errors import LinkError


async def broker_addresses(config: AgentConfig) -> Sequence[str]:
    """All of them, since any may be the one that is used; none of a Unix socket. Raises LinkError where nobody knows the name, HwdError where no URL is there."""
    url = BrokerUrl.parse(broker_url(config))
    if url.transport == "unix":
        return ()
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LinkError(
            f"{url.host}: cannot find the address of the broker, so it is not known what leads to it: {error.strerror}. Write its address into the agent's file"
        ) from error
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))
