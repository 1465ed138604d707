"""Where the broker is."""

import pytest

from hwd_agents.process.broker_addresses import broker_addresses
from hwd_agents.process.config import AgentConfig, PortConfig
from hwd_drivers.core.errors import LinkError


def config(broker: str) -> AgentConfig:
    return AgentConfig(testbed="lab", host="h0", broker=broker, ports={"eth0": PortConfig(interface="eth0")})


@pytest.mark.parametrize(
    ("broker", "addresses"),
    [
        ("mqtt://10.0.0.9:1883", ("10.0.0.9",)),
        ("mqtts://[2001:db8::7]", ("2001:db8::7",)),
        ("unix:/run/broker.sock", ()),
    ],
)
async def test_address_is_that_of_the_url_and_a_unix_socket_has_none(broker: str, addresses: tuple[str, ...]) -> None:
    assert await broker_addresses(config(broker)) == addresses


async def test_name_stands_for_all_its_addresses() -> None:
    assert "127.0.0.1" in await broker_addresses(config("mqtt://localhost"))


async def test_name_that_nobody_knows_is_said_with_its_remedy() -> None:
    with pytest.raises(LinkError, match=r"no\.such\.invalid: cannot find the address .* Write its address into"):
        await broker_addresses(config("mqtt://no.such.invalid"))
