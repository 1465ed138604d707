"""Which CONNECT packets are refused, whoever sends them."""

import struct

import pytest

from hwd.bus.broker.admission import Admission, read_connect


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">H", len(raw)) + raw


def connect(will: str) -> bytes:
    """A CONNECT of MQTT 3.1.1 (3.1) with a retained will of QoS 1."""
    rest = text("MQTT") + bytes([4, 0b0010_1110]) + struct.pack(">H", 60) + text("h0") + text(will) + text("bye")
    return bytes([0x10, len(rest)]) + rest


@pytest.mark.parametrize("will", ["hwd/1/lab/h0/+", "hwd/1/lab/#", "hwd/1/lab/h+/state", ""])
async def test_a_will_to_no_single_topic_is_refused_at_an_open_broker_too(will: str) -> None:
    refusal = Admission().refusal(await read_connect(connect(will)))
    assert refusal is not None
    assert refusal.why.startswith("its will has no topic that can be published to")


async def test_a_will_to_one_topic_is_admitted() -> None:
    assert Admission().refusal(await read_connect(connect("hwd/1/lab/h0/state"))) is None
