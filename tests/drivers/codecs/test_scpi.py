"""SCPI: round trips of lines, commands, lists and texts; short and long headers; error queue; arbitrary bytes."""

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
    Command,
    ErrorQueue,
    LineDecoder,
    QueuedError,
    ScpiError,
    expect,
    format_channels,
    format_error,
    format_string,
    parse_channels,
    parse_error,
    parse_line,
    parse_string,
    split_answers,
)
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.twins.scpi_tree import ScpiTree

TREE = ScpiTree(
    {
        "OXC:SWITch:CONNect:ADD": "add",
        "OXC:SWITch:CONNect:STATe?": "state",
        "SYSTem:ERRor[:NEXT]?": "error",
        "ROUTe<n>:SCAN": "scan",
        "*IDN?": "identity",
    }
)


@pytest.mark.parametrize(
    "data", [b"*IDN?\r", b"*IDN?\n", b"*IDN?\r\n", b"\n*IDN?\n\r", b"\r\n\r\n*IDN?\r\n", b"  *IDN? \r\n"]
)
def test_lines_end_in_cr_lf_or_both(data: bytes) -> None:
    assert LineDecoder().feed(data) == ["*IDN?"]
    decoder = LineDecoder()
    assert [line for byte in data for line in decoder.feed(bytes([byte]))] == ["*IDN?"]


def test_a_line_without_an_end_is_refused_at_the_limit() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"x" * LINE_LIMIT_BYTES) == []
    with pytest.raises(ProtocolError, match="65537 bytes without an end of line, limit 65536 bytes"):
        decoder.feed(b"x")


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(ProtocolError, match="ff fe is not text"):
        LineDecoder().feed(b"\xff\xfe\n")


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("*IDN?", [("*IDN?", ())]),
        (":a:b (@1,2),(@3);c?", [(":a:b", ("(@1,2)", "(@3)")), ("c?", ())]),
        (':a "x;y,z" , 3 ;; b', [(":a", ('"x;y,z"', "3")), ("b", ())]),
        ("a\t1", [("a", ("1",))]),
        ("", []),
    ],
)
def test_a_line_is_cut_into_commands(line: str, commands: list[tuple[str, tuple[str, ...]]]) -> None:
    assert parse_line(line) == [Command(header=header, parameters=parameters) for header, parameters in commands]


@pytest.mark.parametrize("line", ["a (1", "a 1)", 'a "x', "a 'x;b"])
def test_an_open_quote_or_parenthesis_is_a_syntax_error(line: str) -> None:
    with pytest.raises(ScpiError, match="-102 Syntax error"):
        parse_line(line)


def test_too_many_commands_in_a_line_are_refused() -> None:
    assert len(parse_line(";".join(["a"] * COMMAND_LIMIT))) == COMMAND_LIMIT
    with pytest.raises(ScpiError, match="-363"):
        parse_line(";".join(["a"] * (COMMAND_LIMIT + 1)))


@pytest.mark.parametrize(
    ("text", "channels"),
    [("(@)", ()), ("(@1,2,3)", (1, 2, 3)), ("(@1,3:5)", (1, 3, 4, 5)), ("(@5:3)", (5, 4, 3)), (" (@ 1 , 2 ) ", (1, 2))],
)
def test_channel_lists_are_read(text: str, channels: tuple[int, ...]) -> None:
    assert parse_channels(text) == channels


@pytest.mark.parametrize("text", ["", "@1", "(1)", "(@a)", "(@1:)", "(@:1)", "(@1:2:3)", "(@-1)", "(@1)x"])
def test_an_invalid_channel_list_is_refused(text: str) -> None:
    with pytest.raises(ScpiError, match="-104"):
        parse_channels(text)


def test_a_range_without_measure_is_refused_before_it_is_made() -> None:
    assert len(parse_channels(f"(@1:{CHANNEL_LIMIT})")) == CHANNEL_LIMIT
    for text in (f"(@1:{CHANNEL_LIMIT + 1})", "(@1:999999999)", "(@999999999:1)"):
        with pytest.raises(ScpiError, match="-222"):
            parse_channels(text)


@given(st.lists(st.integers(0, 999), max_size=30).map(tuple))
def test_channel_lists_come_back_as_they_were(channels: tuple[int, ...]) -> None:
    assert parse_channels(format_channels(channels)) == channels


@given(st.text(st.characters(exclude_categories=["C"]), max_size=20))
def test_strings_come_back_as_they_were(text: str) -> None:
    assert parse_string(format_string(text)) == text


@given(st.integers(-999, 999), st.text(st.characters(exclude_categories=["C"]), max_size=20))
def test_errors_come_back_as_they_were(code: int, text: str) -> None:
    error = QueuedError(code=code, text=text)
    assert parse_error(format_error(error)) == error
    assert split_answers(f"{format_error(error)};1") == [format_error(error), "1"]


@pytest.mark.parametrize("text", ["(@1),(@2)", "Polatis,x,y,z", "-113", '"x",1', "24,24", '1,"a'])
def test_other_answers_are_not_read_as_errors(text: str) -> None:
    assert parse_error(text) is None


@pytest.mark.parametrize(
    ("header", "path", "value"),
    [
        (":oxc:swit:conn:add", "", "add"),
        ("OXC:SWITCH:CONNECT:STATE?", "", "state"),
        ("stat?", "oxc:swit:conn:", "state"),
        ("oxc:swit:conn:add", "oxc:swit:conn:", "add"),
        ("syst:err?", "", "error"),
        ("syst:error:next?", "", "error"),
        ("*idn?", "oxc:", "identity"),
    ],
)
def test_headers_are_found_in_short_and_long_words_and_below_the_path(header: str, path: str, value: str) -> None:
    assert TREE.find(header, path).value == value


def test_a_path_is_that_of_the_command_before() -> None:
    assert TREE.find(":oxc:swit:conn:add").path == "oxc:swit:conn:"
    assert TREE.find("*IDN?", "oxc:swit:").path == "oxc:swit:"


def test_a_number_in_a_header_is_found() -> None:
    assert TREE.find("rout12:scan").numbers == (12,)
    assert TREE.find("route:scan").numbers == (1,)


@pytest.mark.parametrize("header", [":oxc", "oxc:swi:conn:add", "stat?", "*idn", "rout999999:scan", "x" * 5000])
def test_an_unknown_header_is_an_error(header: str) -> None:
    with pytest.raises(ScpiError) as error:
        TREE.find(header)
    assert error.value.code == UNDEFINED_HEADER
    assert len(error.value.text) < 80


def test_a_full_queue_ends_with_the_overflow_error() -> None:
    queue = ErrorQueue(limit=2)
    for code in (MISSING_PARAMETER, OUT_OF_RANGE, UNDEFINED_HEADER):
        queue.push(ScpiError(code))
    assert [error.code for error in queue.pop_all()] == [MISSING_PARAMETER, QUEUE_OVERFLOW]
    assert [error.code for error in queue.pop_all()] == [0]


def test_missing_and_additional_parameters_have_codes() -> None:
    for parameters, code in (((), MISSING_PARAMETER), (("1", "2"), PARAMETER_NOT_ALLOWED)):
        with pytest.raises(ScpiError) as error:
            expect(parameters, 1, 1)
        assert error.value.code == code


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
