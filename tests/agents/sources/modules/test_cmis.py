"""CMIS memory: eight lanes, latched flags, bias multiplier, missing monitors, cables, and invalid memory."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.modules.cmis import LAYOUT, build_memory, layout_of, parse_memory
from hwd_agents.sources.modules.module_memory import Los
from hwd_drivers.core.errors import ProtocolError

from .modules import cmis, cmis_pages, summed


def test_lanes_flags_and_names_stand_where_the_standard_has_them() -> None:
    module = parse_memory(cmis(cmis_pages()))
    assert (module.vendor, module.part, module.revision, module.serial) == (
        "ACME OPTICS",
        "QDD-400G-FR4",
        "1C",
        "AC2410Q0042",
    )
    assert (module.standard, module.copper, module.los) == ("CMIS", False, Los.LATCHED)
    assert module.rx_los == (False, False, True, False, False, False, False, False)
    assert module.rx_power_dbm[1] == pytest.approx(-2.0, abs=0.001)
    assert module.rx_power_dbm[2] is None
    assert module.rx_power_dbm[3] == pytest.approx(-40.0)
    assert module.tx_power_dbm[0] == 0.0
    assert module.tx_power_dbm[7] == pytest.approx(2.304, abs=0.001)
    assert module.bias_ma == (60.0,) * 8
    assert module.temperature_c == -3.0


@pytest.mark.parametrize(("bits", "bias_ma"), [(0, 60.0), (1, 120.0), (2, 240.0), (3, None)])
def test_bias_is_multiplied_as_page_01h_says_and_unknown_where_that_is_reserved(
    bits: int, bias_ma: float | None
) -> None:
    assert parse_memory(cmis(cmis_pages(lane_monitors=0x07 | bits << 3))).bias_ma == (bias_ma,) * 8


def test_what_a_module_does_not_measure_is_unknown_and_not_zero() -> None:
    module = parse_memory(cmis(cmis_pages(lane_monitors=0x00)))
    assert (module.rx_measured, module.rx_power_dbm, module.tx_power_dbm, module.bias_ma) == (
        False,
        (None,) * 8,
        (None,) * 8,
        (None,) * 8,
    )
    assert module.rx_los[2]
    without = parse_memory(cmis(cmis_pages(rx_flags=0x04)))
    assert (without.los, without.rx_los) == (Los.NONE, (False,) * 8)


def test_lanes_beyond_eight_are_those_of_the_next_bank() -> None:
    pages = cmis_pages(pages=0x01)
    other = cmis_pages(los=0b1000_0000, rx=(6_310,) + (5_000,) * 7)[0x11]
    module = parse_memory(cmis(pages, more=(other,)))
    assert (len(module.rx_power_dbm), len(module.tx_power_dbm), len(module.bias_ma)) == (16, 16, 16)
    assert [lane for lane, lost in enumerate(module.rx_los, 1) if lost] == [3, 16]
    assert module.rx_power_dbm[8] == pytest.approx(-2.0, abs=0.001)
    assert module.tx_power_dbm[8] == 0.0


@pytest.mark.parametrize(("pages", "banks"), [(0x00, 1), (0x01, 2), (0x02, 4)])
def test_as_many_banks_are_read_as_page_01h_names(pages: int, banks: int) -> None:
    layout = layout_of(bytes(cmis_pages(pages=pages)[0x01]))
    assert [span.bank for span in layout.monitors if span.page == 0x11] == list(range(banks))
    assert [span.page for span in layout.static if span.optional] == [0x02]


def test_a_number_of_banks_that_the_standard_keeps_free_is_refused() -> None:
    with pytest.raises(ProtocolError, match="byte 142 of page 01h names 3"):
        layout_of(bytes(cmis_pages(pages=0x03)[0x01]))
    with pytest.raises(ProtocolError, match="byte 142 of page 01h names 3"):
        parse_memory(cmis(cmis_pages(pages=0x03)))


def test_thresholds_are_those_of_page_02h() -> None:
    found = parse_memory(cmis(cmis_pages())).thresholds
    assert found is not None
    assert msgspec.to_builtins(found) == {
        "temperature_c": {"low_alarm": -5.0, "low_warning": 0.0, "high_warning": 70.0, "high_alarm": 75.0},
        "bias_ma": {"low_alarm": 20.0, "low_warning": 25.0, "high_warning": 90.0, "high_alarm": 100.0},
        "tx_power_dbm": {"low_alarm": -7.0, "low_warning": -6.0, "high_warning": 2.5, "high_alarm": 3.5},
        "rx_power_dbm": {"low_alarm": -10.0, "low_warning": -9.0, "high_warning": 4.0, "high_alarm": 5.0},
    }
    doubled = parse_memory(cmis(cmis_pages(lane_monitors=0x0F))).thresholds
    assert doubled is not None
    assert doubled.bias_ma.high_alarm == 200.0


def test_a_module_without_thresholds_and_one_whose_page_was_read_half_are_read_without() -> None:
    assert parse_memory(cmis(cmis_pages(thresholds=False))).thresholds is None
    half = cmis_pages()
    half[0x02][64:] = bytes(64)
    module = parse_memory(cmis(half))
    assert (module.thresholds, module.part) == (None, "QDD-400G-FR4")


@pytest.mark.parametrize("lanes", [1, 4, 8, 9, 16, 32])
def test_what_a_twin_shows_is_what_is_read(lanes: int) -> None:
    powers = [-2.0 - lane / 10 for lane in range(lanes)]
    los = [lane % 3 == 0 for lane in range(lanes)]
    module = parse_memory(
        build_memory(
            vendor="hwd twin",
            part="800g-dr8",
            serial="h0.eth0",
            rx_power_dbm=powers,
            tx_power_dbm=[1.0] * lanes,
            rx_los=los,
            bias_ma=[40.0] * lanes,
            temperature_c=41.5,
        )
    )
    assert (module.part, module.serial, module.temperature_c) == ("800g-dr8", "h0.eth0", 41.5)
    assert [round(power or 0, 2) for power in module.rx_power_dbm[:lanes]] == pytest.approx(powers, abs=0.01)
    assert (module.rx_los[:lanes], module.bias_ma[:lanes]) == (tuple(los), (40.0,) * lanes)
    assert module.thresholds is None


def test_a_cable_is_copper_and_an_optical_module_that_measures_no_light_is_said_so() -> None:
    cable = parse_memory(cmis(cmis_pages(flat=True, technology=0x0A)))
    assert (cable.copper, cable.temperature_c, cable.los) == (True, None, Los.NONE)
    with pytest.raises(ProtocolError, match="it does not measure its light"):
        parse_memory(cmis(cmis_pages(flat=True)))
    with pytest.raises(ProtocolError, match="no Rx power and no Rx LOS flag"):
        parse_memory(cmis(cmis_pages(rx_flags=0x00, lane_monitors=0x03)))


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (0, "identifier 0xff is not a CMIS module"),
        (128, "not upper page 00h"),
        (150, "byte 222 of page 00h"),
        (300, "255 of page 01h"),
    ],
)
def test_nonsense_is_refused_with_the_byte_that_says_so(position: int, words: str) -> None:
    memory = bytearray(cmis(cmis_pages()))
    memory[position] = 0xFF
    with pytest.raises(ProtocolError, match=words):
        parse_memory(bytes(memory))


@given(st.binary(min_size=LAYOUT.size, max_size=LAYOUT.size), st.sampled_from([0x18, 0x19, 0x1E]), st.booleans())
def test_any_bytes_with_the_right_sums_are_a_module_or_a_protocol_error(
    raw: bytes, identifier: int, flat: bool
) -> None:
    memory = bytearray(raw)
    memory[0] = memory[128] = identifier
    memory[2] = 0x80 if flat else 0x00
    summed(memory, 128, 222)
    memory[270] &= 0xFC  # one bank
    summed(memory, 258, 383)
    with contextlib.suppress(ProtocolError):
        module = parse_memory(bytes(memory))
        assert module.part.isprintable()
        assert (len(module.rx_los), len(module.rx_power_dbm), len(module.bias_ma)) == (8, 8, 8)


@given(st.binary(max_size=600))
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert len(parse_memory(raw).rx_los) == 8
