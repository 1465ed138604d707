"""What a second client tries without a password, with a wrong one, and with another host's: it reads nothing, and
nobody hears of it.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiomqtt
import pytest

from hwd.bus.broker.admission import Admission, read_connect

from .conftest import Place

PATIENCE_S = 20.0
T = TypeVar("T")


@asynccontextmanager
async def client(
    place: Place, user: str | None, password: str | None, id: str, **more: Any
) -> AsyncIterator[aiomqtt.Client]:
    host, port = place.address
    async with aiomqtt.Client(
        host, port, username=user, password=password, identifier=id, timeout=PATIENCE_S, **more
    ) as one:
        yield one


def daemon(place: Place) -> Any:
    return client(place, "lab", place.logins.password("lab"), "hwd-lab-daemon")


def agent(place: Place, host: str = "h0", **more: Any) -> Any:
    user = place.logins.rights.user(host)
    return client(place, user, place.logins.password(user), f"hwd-lab-{host}", **more)


async def within(what: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE_S):
        return await what


async def heard(one: aiomqtt.Client, last: str) -> list[tuple[str, bytes]]:
    """All that comes until a message on the topic `last`."""
    found: list[tuple[str, bytes]] = []

    async def read() -> None:
        async for message in one.messages:
            assert isinstance(message.payload, bytes)
            found.append((message.topic.value, message.payload))
            if message.topic.value == last:
                return

    await within(read())
    return found[:-1]


STRANGERS: list[tuple[str | None, str | None]] = [
    (None, None),
    ("lab.h0", None),
    ("lab.h0", ""),
    ("lab.h0", "wrong"),
    ("lab", "wrong"),
    ("lab.h2", "password of lab.h1"),
    ("lab.h0", "password of lab.h1"),
    ("lab", "password of lab.h1"),
    ("LAB.H1", "password of lab.h1"),
]


async def test_who_has_no_password_is_not_let_in_and_disturbs_nobody(place: Place) -> None:
    will = aiomqtt.Will("hwd/1/lab/h0/state", b"forged", 1, True)
    async with agent(place) as h0, daemon(place) as hwd:
        await h0.subscribe("hwd/1/lab/h0/command")
        for (user, password), id in itertools.product(STRANGERS, ("stranger", "hwd-lab-h0")):
            words = place.logins.password("lab.h1") if password == "password of lab.h1" else password
            with pytest.raises(aiomqtt.MqttError, match=r"(?i)not authori[sz]ed|bad user name|connection|disconnected"):
                async with client(place, user, words, id, will=will):
                    pytest.fail(f"{user} {password} {id} is let in")
        await hwd.subscribe("hwd/1/lab/+/state")
        await hwd.publish("hwd/1/lab/h0/command", b"first", qos=1)
        await hwd.publish("hwd/1/lab/h0/command", b"second", qos=1)
        got = aiter(h0.messages)
        assert [(await within(anext(got))).payload for _ in range(2)] == [b"first", b"second"]
        await h0.publish("hwd/1/lab/h0/state", b"up", qos=1)
        assert (await within(anext(aiter(hwd.messages)))).payload == b"up", "no forged state was kept"


async def test_another_host_reads_nothing_of_this_one(place: Place) -> None:
    async with daemon(place) as hwd, agent(place) as h0:
        await hwd.subscribe("hwd/1/lab/+/birth", qos=1)
        await h0.publish("hwd/1/lab/h0/birth", b"with the key of its clock", qos=1, retain=True)
        async with agent(place, "h1") as h1:
            for wide in ("#", "hwd/1/lab/#", "hwd/1/lab/+/birth", "hwd/1/lab/h0/birth", "hwd/1/lab/h0/command"):
                await h1.subscribe(wide, qos=1)
            await h1.subscribe("hwd/1/lab/h1/command", qos=1)
            await h0.publish("hwd/1/lab/h0/birth", b"again", qos=1, retain=True)
            await hwd.publish("hwd/1/lab/h0/command", b"not yours", qos=1)
            await hwd.publish("hwd/1/lab/h1/command", b"yours", qos=1)
            assert await heard(h1, "hwd/1/lab/h1/command") == []


FORGED = [
    *(
        f"hwd/1/lab/h0/{leaf}"
        for leaf in ("state", "birth", "event", "reply", "clock", "ask", "ack", "command", "answer")
    ),
    *(f"hwd/1/lab/h1/{leaf}" for leaf in ("ack", "command", "answer")),
    "hwd/1/lab/runs/r1",
    "hwd/1/lab/h1/else",
    "hwd/1/lab/h1",
]


async def test_another_host_is_not_heard_as_this_one_nor_as_the_daemon(place: Place) -> None:
    async with daemon(place) as hwd, agent(place) as h0:
        await hwd.subscribe("hwd/1/lab/#", qos=1)
        for leaf in ("ack", "command", "clock", "answer"):
            await h0.subscribe(f"hwd/1/lab/h0/{leaf}", qos=1)
        async with agent(place, "h1") as h1:
            for topic in FORGED:
                await h1.publish(topic, b"forged", qos=1, retain=True)
                await h1.publish(topic, b"forged", qos=0)
            await h1.publish("hwd/1/lab/h1/birth", b"its own", qos=1)
        assert await heard(hwd, "hwd/1/lab/h1/birth") == []
        await hwd.publish("hwd/1/lab/h0/command", b"the daemon's", qos=1)
        assert await heard(h0, "hwd/1/lab/h0/command") == []
        await hwd.subscribe("hwd/1/lab/+/+", qos=1)
        await h0.publish("hwd/1/lab/h0/reply", b"last", qos=1)
        assert all(payload != b"forged" for _, payload in await heard(hwd, "hwd/1/lab/h0/reply")), (
            "and nothing was kept"
        )


async def test_another_host_leaves_no_will_in_this_ones_name(place: Place) -> None:
    async with daemon(place) as hwd:
        await hwd.subscribe("hwd/1/lab/#", qos=1)
        with pytest.raises(aiomqtt.MqttError):
            async with agent(place, "h1", will=aiomqtt.Will("hwd/1/lab/h0/state", b"forged", 1, True)):
                raise aiomqtt.MqttError("a broker may let it in, and not publish its will")
        async with agent(place, "h1") as again:
            await again.publish("hwd/1/lab/h1/birth", b"its own", qos=1)
        assert await heard(hwd, "hwd/1/lab/h1/birth") == []


async def test_a_will_is_delivered_before_the_next_birth_message_of_that_client(place: Place) -> None:
    async with daemon(place) as hwd:
        await hwd.subscribe("hwd/1/lab/h0/+", qos=1)
        async with agent(place, will=aiomqtt.Will("hwd/1/lab/h0/state", b"lost", 1, True)) as first:
            async with agent(place) as second:
                await second.publish("hwd/1/lab/h0/birth", b"second", qos=1)
                assert await heard(hwd, "hwd/1/lab/h0/birth") == [("hwd/1/lab/h0/state", b"lost")]
            with pytest.raises(aiomqtt.MqttError):
                await first.publish("hwd/1/lab/h0/birth", b"first", qos=1)


def text(words: str) -> bytes:
    return len(words.encode()).to_bytes(2) + words.encode()


def packet(head: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while True:
        left, low = divmod(left, 128)
        length.append(low | (0x80 if left else 0))
        if not left:
            return bytes([head, *length]) + body


async def logged_in(place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The bare connection of h0."""
    reader, writer = await asyncio.open_connection(*place.address)
    login = text("hwd-lab-h0") + text("lab.h0") + text(place.logins.password("lab.h0"))
    writer.write(packet(0x10, text("MQTT") + bytes([4, 0xC2, 0, 60]) + login))
    assert await within(reader.readexactly(4)) == b"\x20\x02\x00\x00"
    return reader, writer


async def test_a_message_over_the_limit_is_heard_by_nobody(place: Place) -> None:
    async with daemon(place) as hwd:
        await hwd.subscribe("hwd/1/lab/h0/event", qos=1)
        reader, writer = await logged_in(place)
        writer.write(packet(0x30, text("hwd/1/lab/h0/event") + b"x" * ((1 << 20) + 2000)) + packet(0xC0, b""))
        with contextlib.suppress(ConnectionResetError):
            assert await within(reader.read(2)) in (b"", b"\xd0\x00"), "cut off, or without that message"
        writer.close()
        async with agent(place) as again:
            await again.publish("hwd/1/lab/h0/event", b"x" * (1 << 20), qos=1)
        assert len((await within(anext(aiter(hwd.messages)))).payload) == 1 << 20


HELD = packet(0x34, text("hwd/1/lab/h0/event") + b"\x00\x01held")


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (HELD, "a message of QoS 2"),
        (packet(0xC0, HELD), "a PINGREQ with 28 bytes more"),
        (packet(0x40, b"\x00\x01" + HELD), "a PUBACK with 28 bytes more"),
    ],
)
async def test_the_daemon_keeps_nothing_for_whoever_went_away(
    sent: bytes, why: str, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Of Mosquitto its own limits hold (max_queued_messages, max_inflight_messages)."""
    with pytest.raises(aiomqtt.MqttError, match=r"(?i)not authori[sz]ed"):
        async with agent(place, clean_session=False):
            pass
    async with daemon(place) as hwd:
        await hwd.subscribe("hwd/1/lab/h0/event", qos=1)
        reader, writer = await logged_in(place)
        writer.write(sent)
        assert await within(reader.read()) == b"", "cut off"
        writer.close()
        async with agent(place) as again:
            await again.publish("hwd/1/lab/h0/event", b"said", qos=1)
            assert (await within(anext(aiter(hwd.messages)))).payload == b"said"
    assert f"hwd-lab-h0 was cut off: {why}" in caplog.text


def connect_with(will: str) -> bytes:
    """A CONNECT of MQTT 3.1.1 (3.1) with a retained will of QoS 1."""
    return packet(0x10, text("MQTT") + b"\x04\x2e\x00\x3c" + text("h0") + text(will) + text("bye"))


@pytest.mark.parametrize("will", ["hwd/1/lab/h0/+", "hwd/1/lab/#", "hwd/1/lab/h+/state", ""])
async def test_a_will_to_no_single_topic_is_refused_at_an_open_broker_too(will: str) -> None:
    refusal = Admission().refusal(await read_connect(connect_with(will)))
    assert refusal is not None
    assert refusal.why.startswith("its will has no topic that can be published to")
    assert Admission().refusal(await read_connect(connect_with("hwd/1/lab/h0/state"))) is None
