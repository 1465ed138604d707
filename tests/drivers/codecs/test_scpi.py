"""SCPI: round trips of lines, commands, lists and texts; short and long headers; error queue; arbitrary bytes."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwd_drivers.codecs.scpi import (
    CHANNEL_LIMIT,
    COMMAND_LIMIT,
    LINE_LIMIT_BYTES,
    MISSING_PARAMETER,
    OUT_OF_RANGE,
    PARAMETER_NOT_ALLOWED,
    QUEUE_OVERFLOW,
    UNDEFINED_HEADER,
    ErrorQueue,
    LineDecoder,
    QueuedError,
    ScpiError,
    expect,
    format_channels,
    format_error,
    parse_channels,
    parse_error,
    parse_line,
    split_answers,
)
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.twins.scpi_tree import ScpiTree

from ...answers import check_answers

TREE = ScpiTree(
    {
        "OXC:SWITch:CONNect:ADD": "add",
        "OXC:SWITch:CONNect:STATe?": "state",
        "SYSTem:ERRor[:NEXT]?": "error",
        "ROUTe<n>:SCAN": "scan",
        "*IDN?": "identity",
    }
)


def line(text: str) -> list[str]:
    """What its bytes mean, at once and byte by byte."""
    data = text.encode().decode("unicode_escape").encode()
    decoder = LineDecoder()
    lines = LineDecoder().feed(data)
    assert [line for byte in data for line in decoder.feed(bytes([byte]))] == lines
    try:
        return [f"{one.header} {one.parameters}" for each in lines for one in parse_line(each)]
    except ScpiError as error:
        return [str(error)]


def channels(text: str) -> str:
    try:
        return str(parse_channels(text))
    except ScpiError as error:
        return str(error)


def header(text: str) -> str:
    """`PATH HEADER`."""
    path, _, name = text.rpartition(" ")
    try:
        found = TREE.find(name, path)
    except ScpiError as error:
        return str(error)
    return f"{found.value} {found.numbers}, path {found.path or 'none'}"


def test_lines_channels_headers_and_errors_are_read() -> None:
    check_answers(
        Path(__file__).with_name("scpi.txt"),
        {"line": line, "channels": channels, "header": header, "error": lambda text: repr(parse_error(text))},
    )


def test_what_is_too_long_or_no_text_is_refused() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"x" * LINE_LIMIT_BYTES) == []
    with pytest.raises(ProtocolError, match="65537 bytes without an end of line, limit 65536 bytes"):
        decoder.feed(b"x")
    with pytest.raises(ProtocolError, match="ff fe is not text"):
        LineDecoder().feed(b"\xff\xfe\n")
    assert len(header("x" * 5000)) < 100
    assert len(parse_channels(f"(@1:{CHANNEL_LIMIT})")) == CHANNEL_LIMIT
    with pytest.raises(ScpiError, match="-222"):
        parse_channels(f"(@1:{CHANNEL_LIMIT + 1})")
    assert len(parse_line(";".join(["a"] * COMMAND_LIMIT))) == COMMAND_LIMIT
    with pytest.raises(ScpiError, match="-363"):
        parse_line(";".join(["a"] * (COMMAND_LIMIT + 1)))


@given(
    st.integers(-999, 999),
    st.text(st.characters(exclude_categories=["C"]), max_size=20),
    st.lists(st.integers(0, 999), max_size=30).map(tuple),
)
def test_errors_and_channel_lists_come_back_as_they_were(code: int, text: str, channels: tuple[int, ...]) -> None:
    assert parse_channels(format_channels(channels)) == channels
    error = QueuedError(code=code, text=text)
    assert parse_error(format_error(error)) == error
    assert split_answers(f"{format_error(error)};1") == [format_error(error), "1"]


def test_missing_and_additional_parameters_have_codes_and_a_full_queue_ends_with_the_overflow_error() -> None:
    for parameters, code in (((), MISSING_PARAMETER), (("1", "2"), PARAMETER_NOT_ALLOWED)):
        with pytest.raises(ScpiError) as error:
            expect(parameters, 1, 1)
        assert error.value.code == code
    queue = ErrorQueue(limit=2)
    for code in (MISSING_PARAMETER, OUT_OF_RANGE, UNDEFINED_HEADER):
        queue.push(ScpiError(code))
    assert [one.code for one in queue.pop_all()] == [MISSING_PARAMETER, QUEUE_OVERFLOW]
    assert [one.code for one in queue.pop_all()] == [0]


@given(st.text(max_size=200))
@example("(" * 100)
@example('"' * 101)
def test_any_text_is_a_command_or_a_scpi_error(text: str) -> None:
    try:
        for command in parse_line(text):
            TREE.find(command.header)
            for parameter in command.parameters:
                parse_channels(parameter)
    except ScpiError:
        pass
