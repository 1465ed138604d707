"""Module memory: what is built is read back, and what is no module is refused."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.modules.sff8636 import MEMORY_BYTES, build_memory, parse_memory
from hwd_drivers.core.errors import ProtocolError

from .modules import qsfp, qsfp_lower, qsfp_page_00h, qsfp_page_03h

powers = st.tuples(*[st.one_of(st.none(), st.floats(-35, 8))] * 4)


def build(**changes: object) -> bytes:
    fields: dict[str, object] = {
        "vendor": "Finisar",
        "part": "FTLC1154RDPL",
        "serial": "X12345",
        "rx_power_dbm": (-2.0, -2.5, None, -40.0),
        "tx_power_dbm": (0.5, 0.5, 0.5, 0.5),
        "rx_los": (False, False, True, False),
    }
    return build_memory(**{**fields, **changes})  # type: ignore[arg-type]


def test_lanes_flags_and_names_stand_where_the_standard_has_them() -> None:
    memory = build()
    assert len(memory) == MEMORY_BYTES
    assert memory[0] == memory[128] == 0x11
    assert memory[3] == 0b0100
    assert int.from_bytes(memory[34:36]) == 6310  # -2.0 dBm in 0.1 uW
    assert int.from_bytes(memory[38:40]) == 0
    assert int.from_bytes(memory[40:42]) == 1
    assert memory[148:164] == b"Finisar         "
    assert memory[168:184] == b"FTLC1154RDPL    "
    assert memory[196:212] == b"X12345          "


def test_what_is_built_is_read_back() -> None:
    module = parse_memory(build())
    assert (module.vendor, module.part, module.serial) == ("Finisar", "FTLC1154RDPL", "X12345")
    assert module.rx_los == (False, False, True, False)
    assert module.rx_power_dbm[2] is None
    assert module.rx_power_dbm[0] == pytest.approx(-2.0, abs=0.001)
    assert module.temperature_c == 35.0
    assert not module.copper


def test_a_copper_cable_is_known_as_one() -> None:
    assert parse_memory(build(technology=0xA0)).copper


def test_thresholds_are_those_of_page_03h() -> None:
    module = parse_memory(qsfp(qsfp_lower(), qsfp_page_00h(), qsfp_page_03h()))
    assert (module.temperature_c, module.bias_ma[0], module.tx_power_dbm[3]) == (34.5, 40.0, 0.0)
    assert module.thresholds is not None
    assert msgspec.to_builtins(module.thresholds) == {
        "temperature_c": {"low_alarm": -5.0, "low_warning": 0.0, "high_warning": 70.0, "high_alarm": 75.0},
        "bias_ma": {"low_alarm": 20.0, "low_warning": 25.0, "high_warning": 90.0, "high_alarm": 100.0},
        "tx_power_dbm": {"low_alarm": -7.0, "low_warning": -6.0, "high_warning": 2.5, "high_alarm": 3.5},
        "rx_power_dbm": {"low_alarm": -10.0, "low_warning": -9.0, "high_warning": 4.0, "high_alarm": 5.0},
    }


@pytest.mark.parametrize(
    ("lower", "page_03h"),
    [
        (qsfp_lower(), bytearray(128)),
        (qsfp_lower(), qsfp_page_00h()),
        (qsfp_lower(), bytearray([0xFF] * 128)),
        (qsfp_lower(status=0x06), qsfp_page_03h()),
    ],
    ids=["not read", "page 00h in its place", "nothing in its place", "flat"],
)
def test_a_module_without_page_03h_has_no_thresholds(lower: bytearray, page_03h: bytearray) -> None:
    module = parse_memory(qsfp(lower, qsfp_page_00h(), page_03h))
    assert (module.thresholds, module.part) == (None, "QSFP28-LR4-10")


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (0, 0x18, "identifier 0x18 is not an SFF-8636 module"),
        (128, 0x00, "0x00 at byte 128: not upper page 00h"),
        (150, 0xFF, "checksum at byte 191"),
        (200, 0xFF, "checksum at byte 223"),
    ],
)
def test_what_is_no_module_is_refused_with_the_byte_that_says_so(position: int, value: int, words: str) -> None:
    memory = bytearray(build())
    memory[position] = value
    with pytest.raises(ProtocolError, match=words):
        parse_memory(bytes(memory))


@given(powers, st.tuples(*[st.booleans()] * 4))
def test_powers_and_flags_survive_the_round_trip(rx: tuple[float | None, ...], los: tuple[bool, ...]) -> None:
    module = parse_memory(build(rx_power_dbm=rx, rx_los=los))
    assert module.rx_los == los
    for given_dbm, read_dbm in zip(rx, module.rx_power_dbm, strict=True):
        if given_dbm is None:
            assert read_dbm is None
        else:
            assert read_dbm == pytest.approx(given_dbm, abs=2.0 if given_dbm < -20 else 0.05)


@given(st.one_of(st.binary(max_size=400), st.binary(min_size=MEMORY_BYTES, max_size=MEMORY_BYTES)))
def test_any_bytes_are_a_module_or_a_protocol_error(memory: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert len(parse_memory(memory).rx_los) == 4


@given(st.binary(min_size=MEMORY_BYTES, max_size=MEMORY_BYTES))
def test_any_bytes_with_the_right_sums_can_be_read(raw: bytes) -> None:
    memory = bytearray(raw)
    memory[0] = memory[128] = 0x0D
    memory[191] = sum(memory[128:191]) & 0xFF
    memory[223] = sum(memory[192:223]) & 0xFF
    module = parse_memory(bytes(memory))
    assert module.vendor.isprintable()
    assert len(module.rx_power_dbm) == 4
