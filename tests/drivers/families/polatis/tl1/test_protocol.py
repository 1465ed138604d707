"""Polatis verbs: every request has one form on the wire, and what a unit would deny is denied."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwd_drivers.codecs import tl1
from hwd_drivers.codecs.tl1_messages import Answer, Completion
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import AttenuationMode
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.settings import AlarmMode, Edge, VoaSetting
from hwd_drivers.families.polatis.tl1 import lines, protocol
from hwd_drivers.families.polatis.tl1 import requests as ask

from .....answers import check_answers

numbering = Numbering(inputs=8, outputs=8)
port_lists = st.lists(st.integers(1, 640), min_size=1, max_size=30, unique=True)
ports = port_lists.map(tuple)
decimals = st.none() | st.integers(-99, 99).map(lambda tenths: tenths / 10)
BARE = ("Ping MuteReports RetrieveType RetrieveInventory RetrieveSize RetrieveMonitors RetrievePatch "
        "RetrieveAttenuators")  # fmt: skip
OF_PORTS = (
    "DeletePatch RetrievePatch RetrievePower RetrieveMonitorConfig RetrieveThreshold RetrieveAlarm ClearAlarm "
    "CloseShutter OpenShutter RetrieveShutter RetrieveLabel StartFlap StopFlap RetrieveFlap RetrieveAttenuation"
)
requests = st.one_of(
    st.builds(ask.Login, user=st.text("abc:;", min_size=1), password=st.text('abc;":,', min_size=1)),
    st.builds(ask.Logout, user=st.text("abc", min_size=1)),
    *(st.just(getattr(ask, name)()) for name in BARE.split()),
    *(st.builds(getattr(ask, name), ports=ports) for name in OF_PORTS.split()),
    st.builds(ask.DeletePatch, ports=st.none() | ports, forced=st.booleans()),
    st.builds(ask.RetrievePower, ports=ports, reverse=st.booleans()),
    st.builds(ask.RetrieveMonitors, reverse=st.booleans()),
    st.builds(ask.SetIdleTimeout, timeout_s=st.integers(0, 9999)),
    st.builds(
        ask.EnterPatch,
        pairs=port_lists.map(lambda ports: tuple(zip(ports[::2], ports[1::2], strict=False))).filter(bool),
        forced=st.booleans(),
    ),
    st.builds(
        ask.SetMonitorConfig,
        ports=ports,
        wavelength_nm=st.none() | st.integers(1260, 1640).map(float),
        offset_db=decimals,
        averaging_code=st.none() | st.integers(1, 8),
    ),
    st.builds(
        ask.SetThreshold,
        ports=ports,
        mode=st.none() | st.sampled_from(AlarmMode),
        edge=st.none() | st.sampled_from(Edge),
        high_dbm=decimals,
        low_dbm=decimals,
    ),
    st.builds(ask.EditLabel, ports=ports, label=st.text('ab ,:;"&=')),
    st.builds(ask.EnterFlap, ports=ports, off_ms=st.integers(0, 9), on_ms=st.integers(0, 9), cycles=st.integers(0, 9)),
    st.builds(ask.SetAttenuation, ports=ports, mode=st.sampled_from(AttenuationMode), level=decimals),
    ports.map(
        lambda those: ask.SetAttenuation(ports=those, mode=AttenuationMode.RELATIVE, level=3.0, references=those)
    ),
)


def answer(*lines: str) -> Answer:
    return Answer(ctag="1", code=Completion.COMPLD, lines=lines)


@given(requests)
def test_requests_come_back_as_they_were(request: ask.Request) -> None:
    wire = tl1.encode_command(protocol.to_command(request, ctag="12"))
    (text,) = tl1.CommandDecoder().feed(wire)
    assert protocol.from_command(tl1.parse_command(text)) == request


def asked(text: str) -> str:
    """What it means, and its form on the wire where we write another one; the first is what units were seen to take."""
    try:
        request = protocol.from_command(tl1.parse_command(text))
    except protocol.DenyError as error:
        return f"denied {error.code} {error.text}".rstrip()
    wire = tl1.encode_command(protocol.to_command(request, ctag="7")).decode().removesuffix(";\n")
    return f"{request}" + (f"\nwritten {wire}" if wire != text else "")


def test_commands_have_one_meaning_and_one_form() -> None:
    check_answers(Path(__file__).with_name("commands.txt"), {"command": asked})


def test_answers_are_read_as_they_were_written() -> None:
    assert [*map(lines.read_patch, lines.write_patches([(1, 9), (3, 12)]))] == [(1, 9), (3, 12)]
    assert lines.read_powers(answer(*lines.write_powers([(9, -3.216), (10, None)], dark_dbm=-60))) == {
        9: -3.22,
        10: -60.0,
    }
    unit = lines.UnitType(vendor="Polatis", model="OST-8x8", type="OXC", version="6.5.1.7")
    assert lines.read_type(answer(*lines.write_type(unit))) == unit
    assert lines.read_serial(answer(*lines.write_serial("S12345"))) == "S12345"
    assert lines.read_size(answer(*lines.write_size(numbering))) == numbering
    assert lines.read_monitors(answer(*lines.write_monitors([1, 9], numbering))) == (1, 9)
    settings = {
        33: VoaSetting(mode=AttenuationMode.RELATIVE, level=3.0, reference=1),
        34: VoaSetting(mode=AttenuationMode.MAXIMUM),
    }
    assert lines.read_attenuation(answer(*lines.write_attenuation(settings.items()))) == settings
    assert lines.read_words(answer(*lines.write_words([(1, "OPEN"), (2, "SHUT")])), "") == {1: "OPEN", 2: "SHUT"}
    assert lines.read_attenuators(answer(*lines.write_attenuators())) == {"ABSOLUTE", "RELATIVE", "CONVERGED"}
    assert lines.read_attenuators(answer("ATTEN::MODE=NONE")) == frozenset()
    assert lines.read_attenuators(answer("ATTEN::MODE=ABSOLUTE|CONVERGED")) == {"ABSOLUTE", "CONVERGED"}
    assert lines.write_monitors([9], numbering) == ("PMON::PORT=9,MODE=OUTPUT",)


@pytest.mark.parametrize(
    "read",
    [
        lambda found: lines.read_patch(found.lines[0]),
        lines.read_powers,
        lines.read_type,
        lines.read_serial,
        lines.read_size,
        lines.read_monitors,
        lambda found: lines.read_words(found, "RTRV-PORT-SHUTTER"),
        lines.read_attenuators,
        lines.read_attenuation,
    ],
)
@given(text=st.text(max_size=20))
@example(text="1," + "9" * 5000)
@example(text="1:" + "9" * 5000)
@example(text="SIZE=1x" + "9" * 5000)
@example(text="PORT=" + "9" * 5000)
@example(text="9:ABS," + "9" * 5000)
def test_a_wrong_data_line_is_a_protocol_error(read: object, text: str) -> None:
    assert callable(read)
    with contextlib.suppress(ProtocolError):
        read(answer(text))
