"""What is read of a module's memory, by the standard that it has: its values, or why it makes no sense."""

import contextlib
import dataclasses
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.modules import cmis, sff8472, sff8636
from hwd_agents.sources.modules.module_memory import ModuleMemory
from hwd_drivers.core.errors import ProtocolError

from ....answers import check_answers
from . import modules
from .modules import cmis_pages, put, qsfp, qsfp_lower, qsfp_page_00h, qsfp_page_03h, sfp, sfp_a0h, sfp_a2h, summed

PARSERS: dict[str, Callable[[bytes], ModuleMemory]] = {
    "SFF-8472": sff8472.parse_memory,
    "SFF-8636": sff8636.parse_memory,
    "CMIS": cmis.parse_memory,
}
EXTERNAL = {"diagnostics": 0x58}
CALIBRATION: dict[str, Any] = {
    "temperature": 0xFB00,  # -5 degrees
    "bias": 1000,
    "tx": 2000,
    "rx": 100,
    "rx_constants": (1e-6, 1e-4, 0.01, 2.0, 3.0),
    "lines": (512, 10, 384, -500, 256, 512, 256, 0),
}


def sfp_with(a0h: dict[str, Any], a2h: dict[str, Any] | None = None) -> bytes:
    return sfp(sfp_a0h(**a0h), bytearray(256) if a2h is None else sfp_a2h(**a2h))


def sfp_thresholds(**a0h: Any) -> bytes:
    a2h = sfp_a2h()
    put(a2h, 0, struct.pack(">4h", 80 * 256, -10 * 256, 75 * 256, -5 * 256))
    put(a2h, 16, struct.pack(">4H", 40_000, 5_000, 35_000, 7_500))
    put(a2h, 24, struct.pack(">4H", 15_849, 1_259, 12_589, 1_585))
    put(a2h, 32, struct.pack(">4H", 15_849, 251, 12_589, 398))
    summed(a2h, 0, 95)
    return sfp(sfp_a0h(**a0h), a2h)


def sfp_twin(*, lost: bool) -> bytes:
    return sff8472.build_memory(
        vendor="hwd twin",
        part="25g-lr",
        serial="h0.eth0",
        rx_power_dbm=None if lost else -3.0,
        tx_power_dbm=0.5,
        lost=lost,
        bias_ma=38.0,
        temperature_c=-2.5,
    )


def qsfp_with(page_03h: bytearray, **lower: Any) -> bytes:
    return qsfp(qsfp_lower(**lower), qsfp_page_00h(), page_03h)


def qsfp_twin(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "vendor": "Finisar",
        "part": "FTLC1154RDPL",
        "serial": "X12345",
        "rx_power_dbm": (-2.0, -2.5, None, -40.0),
        "tx_power_dbm": (0.5, 0.5, 0.5, 0.5),
        "rx_los": (False, False, True, False),
    }
    return sff8636.build_memory(**{**fields, **changes})


def cmis_with(*more: bytearray, **pages: Any) -> bytes:
    return modules.cmis(cmis_pages(**pages), more=more)


def cmis_half() -> bytes:
    """Page 02h was read half."""
    pages = cmis_pages()
    pages[0x02][64:] = bytes(64)
    return modules.cmis(pages)


def cmis_twin(lanes: int) -> bytes:
    return cmis.build_memory(
        vendor="hwd twin",
        part="800g-dr8",
        serial="h0.eth0",
        rx_power_dbm=[-2.0 - lane / 10 for lane in range(lanes)],
        tx_power_dbm=[1.0] * lanes,
        rx_los=[lane % 3 == 0 for lane in range(lanes)],
        bias_ma=[40.0] * lanes,
        temperature_c=41.5,
    )


def spoiled(memory: bytes, position: int, value: int = 0xFF) -> bytes:
    return memory[:position] + bytes([value]) + memory[position + 1 :]


MEMORIES: dict[str, Callable[[], bytes]] = {
    "SFF-8472": lambda: sfp_with({}, {}),
    "SFF-8472: RX_LOS, without power": lambda: sfp_with({}, {"status": 0x02, "rx": 0}),
    "SFF-8472: RX_LOS, which it does not have": lambda: sfp_with({"options": 0x80}, {"status": 0x02}),
    "SFF-8472: externally calibrated": lambda: sfp_with(EXTERNAL, CALIBRATION),
    "SFF-8472: constants that leave no power": lambda: sfp_with(EXTERNAL, {"rx_constants": (0, 0, 0, 1, -9000.0)}),
    "SFF-8472: constants that are no numbers": lambda: sfp_with(EXTERNAL, {"rx_constants": (0, 0, 0, math.nan, 0)}),
    "SFF-8472: passive copper, without A2h": lambda: sfp_with({"diagnostics": 0, "cable": 0x04}),
    "SFF-8472: active copper, without A2h": lambda: sfp_with({"diagnostics": 0, "cable": 0x08}),
    "SFF-8472: no diagnostics": lambda: sfp_with({"diagnostics": 0x00}),
    "SFF-8472: a change of address": lambda: sfp_with({"diagnostics": 0x6C}, {}),
    "SFF-8472: not ready": lambda: sfp_with({}, {"status": 0x01}),
    "SFF-8472: thresholds": sfp_thresholds,
    "SFF-8472: thresholds, externally calibrated": lambda: sfp_thresholds(**EXTERNAL),
    "SFF-8472: of a twin": lambda: sfp_twin(lost=False),
    "SFF-8472: of a twin, lost": lambda: sfp_twin(lost=True),
    "SFF-8472: spoiled at 0": lambda: spoiled(sfp_with({}, {}), 0),
    "SFF-8472: spoiled at 21": lambda: spoiled(sfp_with({}, {}), 21),
    "SFF-8472: spoiled at 70": lambda: spoiled(sfp_with({}, {}), 70),
    "SFF-8472: spoiled at 60 of A2h": lambda: spoiled(sfp_with({}, {}), 128 + 60),
    "SFF-8636": lambda: qsfp_with(qsfp_page_03h()),
    "SFF-8636: page 03h not read": lambda: qsfp_with(bytearray(128)),
    "SFF-8636: page 00h in the place of page 03h": lambda: qsfp_with(qsfp_page_00h()),
    "SFF-8636: nothing in the place of page 03h": lambda: qsfp_with(bytearray([0xFF] * 128)),
    "SFF-8636: flat": lambda: qsfp_with(qsfp_page_03h(), status=0x06),
    "SFF-8636: of a twin": qsfp_twin,
    "SFF-8636: of a twin, copper": lambda: qsfp_twin(technology=0xA0),
    "SFF-8636: another identifier": lambda: spoiled(qsfp_twin(), 0, 0x18),
    "SFF-8636: spoiled at 128": lambda: spoiled(qsfp_twin(), 128, 0x00),
    "SFF-8636: spoiled at 150": lambda: spoiled(qsfp_twin(), 150),
    "SFF-8636: spoiled at 200": lambda: spoiled(qsfp_twin(), 200),
    "CMIS": cmis_with,
    "CMIS: bias times 2": lambda: cmis_with(lane_monitors=0x07 | 1 << 3),
    "CMIS: bias times 4": lambda: cmis_with(lane_monitors=0x07 | 2 << 3),
    "CMIS: bias times what is reserved": lambda: cmis_with(lane_monitors=0x07 | 3 << 3),
    "CMIS: no monitors": lambda: cmis_with(lane_monitors=0x00),
    "CMIS: no flags": lambda: cmis_with(rx_flags=0x04),
    "CMIS: neither": lambda: cmis_with(rx_flags=0x00, lane_monitors=0x03),
    "CMIS: two banks": lambda: cmis_with(cmis_pages(los=0x80, rx=(6_310,) + (5_000,) * 7)[0x11], pages=0x01),
    "CMIS: banks that the standard keeps free": lambda: cmis_with(pages=0x03),
    "CMIS: without thresholds": lambda: cmis_with(thresholds=False),
    "CMIS: half of the thresholds": cmis_half,
    "CMIS: copper": lambda: cmis_with(flat=True, technology=0x0A),
    "CMIS: flat": lambda: cmis_with(flat=True),
    "CMIS: of a twin of one lane": lambda: cmis_twin(1),
    "CMIS: of a twin of nine lanes": lambda: cmis_twin(9),
    "CMIS: spoiled at 0": lambda: spoiled(cmis_with(), 0),
    "CMIS: spoiled at 128": lambda: spoiled(cmis_with(), 128),
    "CMIS: spoiled at 150": lambda: spoiled(cmis_with(), 150),
    "CMIS: spoiled at 300": lambda: spoiled(cmis_with(), 300),
}


def rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 3)
        case tuple():
            return " ".join(str(rounded(each)) for each in value)
        case msgspec.Struct():
            found = msgspec.to_builtins(value)
            return "; ".join(f"{name} {' '.join(map(str, limits.values()))}" for name, limits in found.items())
    return value


def read(name: str) -> dict[str, str]:
    module = PARSERS[name.partition(":")[0]](MEMORIES[name]())
    return {field.name: str(rounded(getattr(module, field.name))) for field in dataclasses.fields(module)}


def said(name: str) -> list[str]:
    """The values; of a variant those that differ from the plain module of its standard."""
    plain = name.partition(":")[0]
    try:
        found = read(name)
    except ProtocolError as error:
        return [str(error)]
    rest = {} if name == plain else read(plain)
    return [f"{field}: {value}" for field, value in found.items() if rest.get(field) != value]


def test_what_is_read_of_each_memory() -> None:
    golden = Path(__file__).with_name("memories.txt")
    check_answers(golden, {"memories": said})
    asked = [line[2:] for line in golden.read_text(encoding="utf-8").splitlines() if line.startswith("> ")]
    assert asked == [*MEMORIES]


def test_as_many_banks_of_cmis_are_read_as_page_01h_names() -> None:
    for pages, banks in ((0x00, 1), (0x01, 2), (0x02, 4)):
        layout = cmis.layout_of(bytes(cmis_pages(pages=pages)[0x01]))
        assert [span.bank for span in layout.monitors if span.page == 0x11] == list(range(banks))
        assert [span.page for span in layout.static if span.optional] == [0x02]
    with pytest.raises(ProtocolError, match="byte 142 of page 01h names 3"):
        cmis.layout_of(bytes(cmis_pages(pages=0x03)[0x01]))


POWERS = st.tuples(*[st.one_of(st.none(), st.floats(-35, 8))] * 4)


@given(POWERS, st.tuples(*[st.booleans()] * 4))
def test_powers_and_flags_survive_the_round_trip(rx: tuple[float | None, ...], los: tuple[bool, ...]) -> None:
    module = sff8636.parse_memory(qsfp_twin(rx_power_dbm=rx, rx_los=los))
    assert module.rx_los == los
    for given_dbm, read_dbm in zip(rx, module.rx_power_dbm, strict=True):
        if given_dbm is None:
            assert read_dbm is None
        else:
            assert read_dbm == pytest.approx(given_dbm, abs=2.0 if given_dbm < -20 else 0.05)


@given(st.binary(max_size=600), st.sampled_from(sorted(PARSERS)))
def test_any_bytes_are_refused_or_read(raw: bytes, standard: str) -> None:
    with contextlib.suppress(ProtocolError):
        assert PARSERS[standard](raw).part.isprintable()


@given(
    st.binary(min_size=cmis.LAYOUT.size, max_size=cmis.LAYOUT.size),
    st.sampled_from([0x18, 0x19, 0x1E]),
    st.sampled_from([0x00, 0x40, 0x50, 0x60, 0x70]),
)
def test_any_bytes_with_the_right_sums_are_a_module_or_a_protocol_error(
    raw: bytes, identifier: int, status: int
) -> None:
    """`status`: the kinds of diagnostics of an SFP; the memory of a CMIS module is flat by it, or not."""
    eight, four, one = bytearray(raw), bytearray(raw[: sff8636.MEMORY_BYTES]), bytearray(raw[: sff8472.LAYOUT.size])
    eight[0] = eight[128] = identifier
    eight[2] = 0x80 if status else 0x00
    summed(eight, 128, 222)
    eight[270] &= 0xFC  # one bank
    summed(eight, 258, 383)
    four[0] = four[128] = 0x0D
    summed(four, 128, 191)
    summed(four, 192, 223)
    one[0], one[92] = 0x03, status
    for start, position in ((0, 63), (64, 95), (128, 128 + 95)):
        summed(one, start, position)
    for lanes, (standard, memory) in {8: ("CMIS", eight), 4: ("SFF-8636", four), 1: ("SFF-8472", one)}.items():
        with contextlib.suppress(ProtocolError):
            module = PARSERS[standard](bytes(memory))
            assert module.vendor.isprintable()
            assert (len(module.rx_los), len(module.rx_power_dbm), len(module.bias_ma)) == (lanes,) * 3
            assert all(power is None or math.isfinite(power) for power in module.rx_power_dbm + module.tx_power_dbm)
    assert sff8636.parse_memory(bytes(four)).standard == "SFF-8636"
