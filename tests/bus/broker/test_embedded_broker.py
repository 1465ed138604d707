import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import aiomqtt
import pytest

from hwd.bus.broker import EmbeddedBroker
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Incoming
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws

from ...agents.bus.conftest import PATIENCE_S, running

CONNECT = bytes.fromhex("101000044d5154540402003c0004") + b"fred"


def new_bus(url: str, client_id: str = "h0") -> MqttBus:
    return MqttBus(url, client_id, SystemClock(), Draws(1))


async def test_client_that_has_nothing_to_say_stays_connected(url: str) -> None:
    """It sends PINGREQ when its keep-alive is over: a broker that waits no longer than that cuts it off each time."""
    place = urlsplit(url)
    async with aiomqtt.Client(str(place.hostname), place.port or 0, keepalive=1) as client:
        await client.subscribe("quiet")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(client.messages), 3.5)
        await client.publish("quiet", b"still there", qos=1)
        async with asyncio.timeout(PATIENCE_S):
            assert (await anext(client.messages)).payload == b"still there"


def test_it_listens_for_other_machines_only_with_users_and_those_need_passwords() -> None:
    for address in ("0.0.0.0:0", "10.0.0.1:1883", "[::]:0", "broker.example:1883"):
        with pytest.raises(ConfigError, match="without a password"):
            EmbeddedBroker(address)
        EmbeddedBroker(address, users={"h0": "secret"})
    with pytest.raises(ConfigError, match="users without a password: h1"):
        EmbeddedBroker(users={"h0": "x", "h1": ""})
    for address in ("", "127.0.0.1", "127.0.0.1:", ":1883", "127.0.0.1:99999"):
        with pytest.raises(ConfigError, match="write HOST:PORT"):
            EmbeddedBroker(address)


async def test_taken_port_is_bad_input(url: str) -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        await EmbeddedBroker(url.removeprefix("mqtt://")).start()


NO_MQTT = (
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x00" * 100,
    b"\xff" * 100,
    CONNECT + b"\xf0\x00",
    CONNECT + b"\x30\x06\x00\x02\xff\xfehi",  # a topic that is not UTF-8
    CONNECT + b"\x30\xff\xff\xff\xff",  # a length that never ends
    CONNECT + b"\x82\x01\x00",  # half a SUBSCRIBE
    CONNECT + CONNECT,
)


async def test_bytes_that_are_no_mqtt_harm_nobody_else(url: str) -> None:
    bus = new_bus(url)
    inbox: asyncio.Queue[Incoming] = asyncio.Queue()
    bus.subscribe("#", inbox.put_nowait)
    host, _, port = url.removeprefix("mqtt://").rpartition(":")
    async with running(bus):
        for data in NO_MQTT:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(data)
            await writer.drain()
            async with asyncio.timeout(PATIENCE_S):
                await bus.publish("t", b"still here after " + data, qos=1)
                while (await inbox.get()).payload != b"still here after " + data:
                    pass
            writer.close()


async def test_closing_with_clients_inside_leaves_nothing_and_it_writes_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broker = EmbeddedBroker()
    url = await broker.start()
    buses = [new_bus(url, f"h{number}") for number in range(5)]
    async with running(*buses):
        await buses[0].publish("t", b"kept", qos=1, retain=True)
        host, _, port = url.removeprefix("mqtt://").rpartition(":")
        _, mute = await asyncio.open_connection(host, int(port))
        await broker.close()
    mute.close()
    await broker.close()
    assert list(tmp_path.iterdir()) == []
