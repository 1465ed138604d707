"""Captures of larger units: both sides read them alike wherever they are cut, and the twins answer as the units did."""

import ast
import asyncio
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from hwd_drivers.codecs import scpi, tl1

from ..stage import Stage

STAMP = re.compile(rb"\d\d-\d\d-\d\d \d\d:\d\d:\d\d")
Read = Callable[[Iterable[bytes]], list[object]]
"""What chunks of bytes mean."""


def scpi_answers(chunks: Iterable[bytes]) -> list[object]:
    decoder = scpi.LineDecoder()
    return [answer for chunk in chunks for line in decoder.feed(chunk) for answer in scpi.split_answers(line)]


def scpi_commands(chunks: Iterable[bytes]) -> list[object]:
    decoder = scpi.LineDecoder()
    return [command for chunk in chunks for line in decoder.feed(chunk) for command in scpi.parse_line(line)]


def tl1_answers(chunks: Iterable[bytes]) -> list[object]:
    decoder = tl1.AnswerDecoder()
    return [message for chunk in chunks for message in decoder.feed(chunk)]


def tl1_commands(chunks: Iterable[bytes]) -> list[object]:
    decoder = tl1.CommandDecoder()
    texts = [text for chunk in chunks for text in decoder.feed(chunk)]
    return [*map(tl1.parse_command, texts)]


class Capture(NamedTuple):
    driver: str
    model: str
    size: str
    folder: str
    commands: Read
    answers: Read

    @property
    def texts(self) -> list[tuple[str, bytes]]:
        """`>` or `<`, and the bytes."""
        lines = (Path(__file__).parent / self.folder / "captures.txt").read_text(encoding="utf-8").splitlines()
        return [(line[0], ast.literal_eval(f"'''{line[2:]}'''").encode()) for line in lines if line[0] in "<>"]

    def of(self, way: str) -> bytes:
        return b"".join(text for each, text in self.texts if each == way)


each_capture = pytest.mark.parametrize(
    "capture",
    [
        Capture("dicon-mxs", "mxs-9100", "4x4", "dicon/mxs", scpi_commands, scpi_answers),
        Capture("polatis-scpi", "polatis-6000", "8x8", "polatis/scpi", scpi_commands, scpi_answers),
        Capture("polatis-tl1", "polatis-6000", "8x8", "polatis/tl1", tl1_commands, tl1_answers),
    ],
    ids=lambda capture: capture.driver,
)
each_way = pytest.mark.parametrize("way", [">", "<"], ids=["commands", "answers"])


@each_capture
@each_way
def test_a_capture_is_understood_wherever_it_is_cut(capture: Capture, way: str) -> None:
    read, data = capture.commands if way == ">" else capture.answers, capture.of(way)
    whole = read([data])
    assert len(whole) >= 16
    for cut in range(len(data)):
        assert read([data[:cut], data[cut:]]) == whole
    assert read(bytes([byte]) for byte in data) == whole


@each_capture
@pytest.mark.parametrize("bytewise", [False, True])
@pytest.mark.usefixtures("virtual_time")
async def test_the_twin_answers_as_the_unit_did(capture: Capture, bytewise: bool) -> None:
    async with Stage(capture.driver, capture.model, capture.size) as stage:
        await stage.start()
        client = await stage.connect()
        for way, text in capture.texts:
            if way == "<":
                assert STAMP.sub(b"", client.received) == STAMP.sub(b"", text)
                continue
            client.received = b""
            for chunk in [bytes([byte]) for byte in text] if bytewise else [text]:
                client.transport.write(chunk)
            await asyncio.sleep(1)
