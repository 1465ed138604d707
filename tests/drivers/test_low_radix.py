"""Common tests of small switches: captures cut at every byte and played to the twins, arbitrary bytes, wrong sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.devices.registry import find
from hwd_drivers.families.agiltron import protocol as agiltron
from hwd_drivers.families.dicon.mems import protocol as dicon
from hwd_drivers.families.leoni import protocol as leoni
from hwd_drivers.families.osw import protocol as osw
from hwd_drivers.families.sercalo import protocol as sercalo
from hwd_drivers.families.sercalo.ascii import protocol as sercalo_ascii
from hwd_drivers.families.thorlabs import protocol as thorlabs

from .stage import Stage, in_virtual_time

Decoder = Callable[[], Any]

LIMIT_BYTES = 1024
"""No decoder keeps more than this of what has no end."""
MOVED_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    driver: str
    model: str
    size: str | None
    commands: Decoder
    answers: Decoder
    folder: str
    endless: bytes
    """Bytes that never end a message."""


FAMILIES = [
    Family(
        driver="thorlabs-osw",
        model="osw22",
        size=None,
        commands=thorlabs.CommandDecoder,
        answers=thorlabs.AnswerDecoder,
        folder="thorlabs",
        endless=b"x",
    ),
    Family(
        driver="osw",
        model="osw",
        size="2x6",
        commands=osw.Decoder,
        answers=osw.AnswerDecoder,
        folder="osw",
        endless=b"<",
    ),
    Family(
        driver="leoni",
        model="eol",
        size="1x8",
        commands=leoni.CommandDecoder,
        answers=leoni.AnswerDecoder,
        folder="leoni",
        endless=b"x",
    ),
    Family(
        driver="agiltron",
        model="selfalign",
        size="1x16",
        commands=agiltron.CommandDecoder,
        answers=agiltron.AnswerDecoder,
        folder="agiltron",
        endless=b"\x01\x35\x00",
    ),
    Family(
        driver="sercalo",
        model="rsc",
        size="1x8",
        commands=sercalo.CommandDecoder,
        answers=sercalo.AnswerDecoder,
        folder="sercalo",
        endless=b"\xef",
    ),
    Family(
        driver="sercalo-ascii",
        model="usb",
        size="1x8",
        commands=sercalo_ascii.CommandDecoder,
        answers=sercalo_ascii.AnswerDecoder,
        folder="sercalo/ascii",
        endless=b"x",
    ),
    Family(
        driver="dicon-mems",
        model="mems",
        size="1x16",
        commands=dicon.CommandDecoder,
        answers=dicon.AnswerDecoder,
        folder="dicon/mems",
        endless=b"x",
    ),
]
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.driver)


def exchanges(family: Family) -> list[tuple[bytes, bytes]]:
    """What the host sent, and what came back before it sent more."""
    found: list[tuple[bytes, bytes]] = []
    for line in (Path(__file__).parent / "families" / family.folder / "captures.txt").read_text().splitlines():
        data = line[2:].encode("latin-1").decode("unicode_escape").encode("latin-1")
        if line.startswith("> "):
            found.append((data, b""))
        elif line.startswith("< "):
            found[-1] = found[-1][0], found[-1][1] + data
    return found


@each_family
@pytest.mark.parametrize("side", [0, 1], ids=["host", "device"])
def test_a_capture_reads_the_same_wherever_it_is_cut(family: Family, side: int) -> None:
    data = b"".join(exchange[side] for exchange in exchanges(family))
    make = family.answers if side else family.commands
    whole = make().feed(data)
    assert len(whole) >= 4
    for cut in range(1, len(data)):
        decoder = make()
        assert [*decoder.feed(data[:cut]), *decoder.feed(data[cut:])] == [*whole]
    decoder = make()
    assert [message for byte in data for message in decoder.feed(bytes([byte]))] == [*whole]


@each_family
@in_virtual_time
async def test_the_twin_answers_the_capture_byte_for_byte(family: Family) -> None:
    async with Stage(family.driver, family.model, family.size, timing="lowradix-8ms", heard_s=MOVED_S) as stage:
        has_option = family.driver in ("osw", "agiltron", "sercalo", "sercalo-ascii")
        await stage.start(**({"answer": "at-once"} if has_option else {}))
        client = await stage.connect()
        for number, (sent, received) in enumerate(exchanges(family)):
            assert await client.say(sent) == received, f"exchange {number}: {sent!r}"


@each_family
@given(chunks=st.lists(st.binary(max_size=300), max_size=8), answers=st.booleans())
def test_any_bytes_are_messages_or_a_protocol_error(family: Family, chunks: Sequence[bytes], answers: bool) -> None:
    decoder = (family.answers if answers else family.commands)()
    try:
        for chunk in chunks:
            decoder.feed(chunk)
    except ProtocolError:
        return


@each_family
@given(data=st.data())
def test_a_damaged_capture_is_messages_or_a_protocol_error(family: Family, data: st.DataObject) -> None:
    side = data.draw(st.integers(0, 1))
    whole = bytearray(b"".join(exchange[side] for exchange in exchanges(family)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    decoder = (family.answers if side else family.commands)()
    try:
        decoder.feed(bytes(whole))
    except ProtocolError:
        return


@each_family
def test_an_endless_stream_is_refused_or_cut_into_messages_before_the_limit(family: Family) -> None:
    decoder = family.commands()
    fed = 0
    try:
        while fed < 4 * LIMIT_BYTES:
            if decoder.feed(family.endless):
                return
            fed += len(family.endless)
    except ProtocolError:
        assert fed <= LIMIT_BYTES
        return
    raise AssertionError(f"{fed} bytes were kept")


@each_family
@in_virtual_time
async def test_garbage_ends_the_session_or_is_not_a_command(family: Family) -> None:
    async with Stage(family.driver, family.model, family.size, timing="lowradix-8ms", heard_s=0.001) as stage:
        twin = await stage.start()
        before = twin.mirror.states
        client = await stage.connect()
        await client.say(b"\xff\x00\xfe" * 200)
        assert client.ended
        assert twin.mirror.states == before


@pytest.mark.parametrize(
    ("driver", "model", "size", "finding"),
    [
        ("thorlabs-osw", "osw12", "1x3", "an osw12 is 1x2. Leave it out"),
        ("osw", "osw", None, "has several sizes. State one, such as 1x8"),
        ("osw", "osw", "65x6", "1 to 64 selectors of 2 to 99 channels"),
        ("osw", "osw", "1x100", "2 to 99 channels"),
        ("leoni", "eol", "2x8", "1 selectors of"),
        ("leoni", "eol", "1by8", "not a size. Write it as 1x8"),
        ("agiltron", "selfalign", "1x257", "2 to 256 channels"),
        ("sercalo", "rsc", "1x1", "2 to 255 channels"),
        ("dicon-mems", "mems", "0x8", "not a size"),
    ],
)
def test_an_impossible_size_is_refused_with_the_possible_ones(
    driver: str, model: str, size: str | None, finding: str
) -> None:
    with pytest.raises(ConfigError, match=finding):
        find(driver).capabilities(model, size)
