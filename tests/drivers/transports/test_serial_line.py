"""Addresses of serial ports: what they say, what the kind of device adds, what is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.transports.serial_line import SerialLine, is_serial

from ...answers import check_answers

LINE = SerialLine(baud=115_200, rtscts=True)


def test_a_device_gets_the_line_of_its_kind_but_for_the_settings_of_its_address_and_no_other_address_does() -> None:
    whole = LINE.complete("/dev/ttyUSB0")
    assert whole == "serial:/dev/ttyUSB0?baud=115200&bytesize=8&parity=N&stopbits=1&rtscts=1"
    assert SerialLine.parse(whole) == ("/dev/ttyUSB0", LINE)
    whole = LINE.complete("serial:/dev/ttyS1?baud=9600&rtscts=0&parity=E")
    assert SerialLine.parse(whole) == ("/dev/ttyS1", SerialLine(baud=9600, parity="E"))
    for address in ("10.0.0.5:4001", "unix:/run/sw1", "mem:sw1", "[fe80::1]:4001"):
        assert not is_serial(address)
        assert LINE.complete(address) == address


def refused(address: str) -> str:
    with pytest.raises(ValueError, match=re.escape(address)) as found:
        SerialLine.parse(address)
    return str(found.value)


def test_an_unusable_address_is_refused_with_a_remedy() -> None:
    check_answers(Path(__file__).with_name("serial_lines.txt"), {"address": refused})


@given(st.text(max_size=60))
def test_any_text_is_a_line_or_a_value_error(text: str) -> None:
    try:
        path, line = SerialLine.parse(f"serial:/dev/x{text}")
    except ValueError:
        return
    assert SerialLine.parse(line.complete(path)) == (path, line)
