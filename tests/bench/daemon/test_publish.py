import asyncio
from pathlib import Path

import pytest

from bench.broker import MosquittoMissingError, mosquitto
from bench.daemon.publish import BarePublisher, publish_packet
from hwd_agents.bus.mqtt import MqttBus
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws


@pytest.mark.parametrize(
    ("size", "length"), [(0, b"\x05"), (122, b"\x7f"), (123, b"\x80\x01"), (16_379, b"\x80\x80\x01")]
)
def test_remaining_length_is_seven_bits_a_byte(size: int, length: bytes) -> None:
    """MQTT 3.1.1, table 2.4: 127 is 7F, 128 is 80 01, 16,384 is 80 80 01."""
    packet = publish_packet("t", bytes(size), 7)
    assert packet[: 1 + len(length)] == b"\x32" + length
    assert packet[1 + len(length) :] == b"\x00\x01t\x00\x07" + bytes(size)


async def test_every_message_that_the_broker_acknowledged_comes_to_a_subscriber(tmp_path: Path) -> None:
    heard: list[int] = []
    whole = asyncio.Event()

    def take(number: int) -> None:
        heard.append(number)
        if number == 1999:
            whole.set()

    try:
        async with mosquitto(tmp_path) as port, asyncio.timeout(20.0):
            bus = MqttBus(f"mqtt://127.0.0.1:{port}", "listener", SystemClock(), Draws(1))
            up = asyncio.Event()
            bus.on_up(up.set)
            bus.subscribe("t", lambda incoming: take(int(incoming.payload)))
            life = asyncio.create_task(bus.run())
            await up.wait()
            async with BarePublisher.open(port, "bare") as publisher:
                await publisher.send([publish_packet("t", b"%d" % number, number + 1) for number in range(2000)])
            await whole.wait()
            life.cancel()
            await asyncio.wait([life])
    except MosquittoMissingError as error:
        pytest.skip(str(error))
    assert heard == [*range(2000)]
