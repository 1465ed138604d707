"""SFP memory: internally and externally calibrated values, loss of signal as a state, cables, and invalid memory."""

import contextlib
import math
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.modules.module_memory import Los
from hwd_agents.sources.modules.sff8472 import LAYOUT, build_memory, parse_memory
from hwd_drivers.core.errors import ProtocolError

from .modules import put, sfp, sfp_a0h, sfp_a2h, summed


def test_values_of_an_internally_calibrated_module_stand_as_they_are() -> None:
    module = parse_memory(sfp(sfp_a0h(), sfp_a2h()))
    assert (module.vendor, module.part, module.revision, module.serial) == (
        "ACME OPTICS",
        "SFP28-LR-10",
        "B2",
        "AC2409X0117",
    )
    assert (module.standard, module.copper, module.los) == ("SFF-8472", False, Los.STATE)
    assert module.temperature_c == 34.5
    assert module.bias_ma == (40.0,)
    assert module.tx_power_dbm == (0.0,)
    assert module.rx_power_dbm[0] == pytest.approx(-3.0103, abs=1e-4)
    assert module.rx_los == (False,)


def test_loss_of_signal_is_bit_1_of_byte_110_and_a_state() -> None:
    module = parse_memory(sfp(sfp_a0h(), sfp_a2h(status=0x02, rx=0)))
    assert (module.rx_los, module.los, module.rx_power_dbm) == ((True,), Los.STATE, (None,))


def test_a_module_without_soft_rx_los_has_no_sign_of_it_whatever_the_bit_says() -> None:
    module = parse_memory(sfp(sfp_a0h(options=0x80), sfp_a2h(status=0x02)))
    assert (module.rx_los, module.los) == ((False,), Los.NONE)


def test_values_of_an_externally_calibrated_module_go_through_its_constants() -> None:
    a2h = sfp_a2h(
        temperature=0xFB00,  # -5 degrees
        bias=1000,
        tx=2000,
        rx=100,
        rx_constants=(1e-6, 1e-4, 0.01, 2.0, 3.0),
        lines=(512, 10, 384, -500, 256, 512, 256, 0),
    )
    module = parse_memory(sfp(sfp_a0h(diagnostics=0x58), a2h))
    rx_steps = 1e-6 * 100**4 + 1e-4 * 100**3 + 0.01 * 100**2 + 2.0 * 100 + 3.0
    assert module.rx_power_dbm[0] == pytest.approx(10 * math.log10(rx_steps * 1e-4), abs=1e-4)
    assert module.tx_power_dbm[0] == pytest.approx(10 * math.log10((2000 * 1.5 - 500) * 1e-4), abs=1e-9)
    assert module.bias_ma[0] == pytest.approx((1000 * 2 + 10) * 0.002)
    assert module.temperature_c == -5 + 2


def test_external_constants_that_leave_no_power_are_no_light_and_those_that_are_no_numbers_are_refused() -> None:
    below = parse_memory(sfp(sfp_a0h(diagnostics=0x58), sfp_a2h(rx_constants=(0, 0, 0, 1, -9000.0))))
    assert below.rx_power_dbm == (None,)
    with pytest.raises(ProtocolError, match=r"constants for received power \(A2h bytes 56-75\) are no numbers"):
        parse_memory(sfp(sfp_a0h(diagnostics=0x58), sfp_a2h(rx_constants=(0, 0, 0, math.nan, 0))))


@pytest.mark.parametrize("cable", [0x04, 0x08])
def test_a_copper_cable_is_known_as_one_and_needs_no_a2h(cable: int) -> None:
    module = parse_memory(sfp(sfp_a0h(diagnostics=0, cable=cable), bytearray(256)))
    assert (module.copper, module.temperature_c, module.los) == (True, None, Los.NONE)


@pytest.mark.parametrize(
    ("a0h", "a2h", "words"),
    [
        (
            sfp_a0h(diagnostics=0x00),
            bytearray(256),
            "it does not measure its light .* has no A2h.* digital diagnostics",
        ),
        (sfp_a0h(diagnostics=0x6C), sfp_a2h(), "its A2h needs a change of address"),
        (sfp_a0h(), sfp_a2h(status=0x01), "not ready yet"),
    ],
)
def test_a_module_whose_light_nothing_measures_is_said_so(a0h: bytearray, a2h: bytearray, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        parse_memory(sfp(a0h, a2h))


@pytest.mark.parametrize(
    ("position", "words"),
    [(0, "identifier 0xff is not"), (21, "at byte 63"), (70, "at byte 95 is"), (128 + 60, "byte 95 of A2h")],
)
def test_nonsense_is_refused_with_the_byte_that_says_so(position: int, words: str) -> None:
    memory = bytearray(sfp(sfp_a0h(), sfp_a2h()))
    memory[position] = 0xFF
    with pytest.raises(ProtocolError, match=words):
        parse_memory(bytes(memory))


@given(st.binary(min_size=256, max_size=256), st.sampled_from([0x00, 0x40, 0x50, 0x60, 0x70]))
def test_any_bytes_with_the_right_sums_are_a_module_or_a_protocol_error(raw: bytes, diagnostics: int) -> None:
    memory = bytearray(raw)
    memory[0], memory[92] = 0x03, diagnostics
    summed(memory, 0, 63)
    summed(memory, 64, 95)
    summed(memory, 128, 128 + 95)
    with contextlib.suppress(ProtocolError):
        module = parse_memory(bytes(memory))
        assert module.vendor.isprintable()
        assert (len(module.rx_los), len(module.rx_power_dbm), len(module.bias_ma)) == (1, 1, 1)
        assert all(power is None or math.isfinite(power) for power in module.rx_power_dbm + module.tx_power_dbm)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert len(parse_memory(raw).rx_los) == 1
    assert LAYOUT.size == 256


def test_thresholds_are_those_of_a2h() -> None:
    a2h = sfp_a2h()
    put(a2h, 0, struct.pack(">4h", 80 * 256, -10 * 256, 75 * 256, -5 * 256))
    put(a2h, 16, struct.pack(">4H", 40_000, 5_000, 35_000, 7_500))
    put(a2h, 24, struct.pack(">4H", 15_849, 1_259, 12_589, 1_585))
    put(a2h, 32, struct.pack(">4H", 15_849, 251, 12_589, 398))
    summed(a2h, 0, 95)
    found = parse_memory(sfp(sfp_a0h(), a2h)).thresholds
    assert found is not None
    assert msgspec.to_builtins(found) == {
        "temperature_c": {"low_alarm": -10.0, "low_warning": -5.0, "high_warning": 75.0, "high_alarm": 80.0},
        "bias_ma": {"low_alarm": 10.0, "low_warning": 15.0, "high_warning": 70.0, "high_alarm": 80.0},
        "tx_power_dbm": {"low_alarm": -9.0, "low_warning": -8.0, "high_warning": 1.0, "high_alarm": 2.0},
        "rx_power_dbm": {"low_alarm": -16.0, "low_warning": -14.0, "high_warning": 1.0, "high_alarm": 2.0},
    }
    assert parse_memory(sfp(sfp_a0h(), sfp_a2h())).thresholds is None, "all zero: it has none"
    raw = parse_memory(sfp(sfp_a0h(diagnostics=0x58), a2h))
    assert raw.thresholds is None, "those of an externally calibrated module are raw numbers, too"


@pytest.mark.parametrize("lost", [True, False])
def test_what_a_twin_shows_is_what_is_read(lost: bool) -> None:
    module = parse_memory(
        build_memory(
            vendor="hwd twin",
            part="25g-lr",
            serial="h0.eth0",
            rx_power_dbm=None if lost else -3.0,
            tx_power_dbm=0.5,
            lost=lost,
            bias_ma=38.0,
            temperature_c=-2.5,
        )
    )
    assert (module.vendor, module.part, module.serial, module.los) == ("hwd twin", "25g-lr", "h0.eth0", Los.STATE)
    assert module.rx_los == (lost,)
    assert module.rx_power_dbm[0] == (None if lost else pytest.approx(-3.0, abs=0.001))
    assert module.tx_power_dbm[0] == pytest.approx(0.5, abs=0.001)
    assert (module.bias_ma, module.temperature_c) == ((38.0,), -2.5)
