"""Polatis verbs: every request has one form on the wire, and what a unit would deny is denied."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwd_drivers.codecs import tl1
from hwd_drivers.codecs.tl1_messages import Answer, Completion
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import AttenuationMode
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.settings import AlarmMode, AlarmType, Edge, VoaSetting
from hwd_drivers.families.polatis.tl1 import lines, protocol
from hwd_drivers.families.polatis.tl1 import requests as ask

numbering = Numbering(inputs=8, outputs=8)
port_lists = st.lists(st.integers(1, 640), min_size=1, max_size=30, unique=True)
ports = port_lists.map(tuple)
decimals = st.none() | st.integers(-99, 99).map(lambda tenths: tenths / 10)
requests = st.one_of(
    st.builds(ask.Login, user=st.text("abc:;", min_size=1), password=st.text('abc;":,', min_size=1)),
    st.builds(ask.Logout, user=st.text("abc", min_size=1)),
    st.sampled_from(
        [
            ask.Ping(),
            ask.MuteReports(),
            ask.RetrieveType(),
            ask.RetrieveInventory(),
            ask.RetrieveSize(),
            ask.RetrieveMonitors(),
            ask.RetrievePatch(),
            ask.DeletePatch(ports=None),
        ]
    ),
    st.builds(ask.SetIdleTimeout, timeout_s=st.integers(0, 9999)),
    st.builds(
        ask.EnterPatch,
        pairs=port_lists.map(lambda ports: tuple(zip(ports[::2], ports[1::2], strict=False))).filter(bool),
        forced=st.booleans(),
    ),
    st.builds(ask.DeletePatch, ports=port_lists.map(tuple), forced=st.booleans()),
    st.builds(ask.RetrievePatch, ports=port_lists.map(tuple)),
    st.builds(ask.RetrievePower, ports=ports, reverse=st.booleans()),
    st.builds(ask.RetrieveMonitors, reverse=st.booleans()),
    st.just(ask.RetrieveAttenuators()),
    st.builds(ask.RetrieveMonitorConfig, ports=ports),
    st.builds(
        ask.SetMonitorConfig,
        ports=ports,
        wavelength_nm=st.none() | st.integers(1260, 1640).map(float),
        offset_db=decimals,
        averaging_code=st.none() | st.integers(1, 8),
    ),
    st.builds(ask.RetrieveThreshold, ports=ports, type=st.sampled_from(AlarmType)),
    st.builds(
        ask.SetThreshold,
        ports=ports,
        type=st.sampled_from(AlarmType),
        mode=st.none() | st.sampled_from(AlarmMode),
        edge=st.none() | st.sampled_from(Edge),
        high_dbm=decimals,
        low_dbm=decimals,
    ),
    st.builds(ask.RetrieveAlarm, ports=ports, type=st.sampled_from(AlarmType)),
    st.builds(ask.ClearAlarm, ports=ports, type=st.sampled_from(AlarmType)),
    st.builds(ask.CloseShutter, ports=ports),
    st.builds(ask.OpenShutter, ports=ports),
    st.builds(ask.RetrieveShutter, ports=ports),
    st.builds(ask.RetrieveLabel, ports=ports),
    st.builds(ask.EditLabel, ports=ports, label=st.text('ab ,:;"&=')),
    st.builds(ask.EnterFlap, ports=ports, off_ms=st.integers(0, 9), on_ms=st.integers(0, 9), cycles=st.integers(0, 9)),
    st.builds(ask.StartFlap, ports=ports),
    st.builds(ask.StopFlap, ports=ports),
    st.builds(ask.RetrieveFlap, ports=st.none() | ports),
    st.builds(ask.RetrieveAttenuation, ports=ports),
    st.builds(ask.SetAttenuation, ports=ports, mode=st.sampled_from(AttenuationMode), level=decimals),
    ports.map(
        lambda those: ask.SetAttenuation(ports=those, mode=AttenuationMode.RELATIVE, level=3.0, references=those)
    ),
)


def answer(*lines: str) -> Answer:
    return Answer(ctag="1", code=Completion.COMPLD, lines=lines)


def asked(text: str) -> ask.Request:
    return protocol.from_command(tl1.parse_command(text))


@given(requests)
def test_requests_come_back_as_they_were(request: ask.Request) -> None:
    wire = tl1.encode_command(protocol.to_command(request, ctag="12"))
    (text,) = tl1.CommandDecoder().feed(wire)
    assert protocol.from_command(tl1.parse_command(text)) == request


@pytest.mark.parametrize(
    ("request_", "wire"),
    [
        (ask.Login(user="admin", password="root"), b"ACT-USER::admin:7::root;\n"),
        (ask.Logout(user="admin"), b"CANC-USER::admin:7:;\n"),
        (ask.Ping(), b"RTRV-HDR:::7:;\n"),
        (ask.MuteReports(), b"OPR-ARC-EQPT::REPMGR:7::IND;\n"),
        (ask.SetIdleTimeout(timeout_s=600), b"ED-EQPT::TIMEOUT:7:::ADMIN=600;\n"),
        (ask.RetrieveType(), b"RTRV-NETYPE:::7:;\n"),
        (ask.RetrieveInventory(), b"RTRV-INV::OCS:7:;\n"),
        (ask.RetrieveSize(), b"RTRV-EQPT::SYSTEM:7:::PARAMETER=SIZE;\n"),
        (ask.RetrieveMonitors(), b"RTRV-EQPT::PMON:7:::PARAMETER=CONFIG;\n"),
        (ask.EnterPatch(pairs=((1, 49),)), b"ENT-PATCH::1,49:7:;\n"),
        (ask.EnterPatch(pairs=((1, 50), (2, 49)), forced=True), b"ENT-PATCH::1&2,50&49:7::frcd;\n"),
        (ask.DeletePatch(ports=(1, 5)), b"DLT-PATCH::1&5:7:;\n"),
        (ask.DeletePatch(ports=None), b"DLT-PATCH::ALL:7:;\n"),
        (ask.RetrievePatch(), b"RTRV-PATCH:::7:;\n"),
        (ask.RetrievePower(ports=(1, 2, 3, 48)), b"RTRV-PORT-POWER::1&&3&48:7:;\n"),
        (ask.RetrievePower(ports=(9,), reverse=True), b"RTRV-PORT-REVPOWER::9:7:;\n"),
        (ask.RetrieveMonitors(reverse=True), b"RTRV-EQPT::REVPMON:7:::PARAMETER=CONFIG;\n"),
        (ask.RetrieveMonitorConfig(ports=(9,)), b"RTRV-PORT-PMON::9:7:;\n"),
        (
            ask.SetMonitorConfig(ports=(9,), wavelength_nm=1310, offset_db=0.5, averaging_code=4),
            b"SET-PORT-PMON::9:7:::WAVE=1310,OFFSET=0.5,ATIME=4;\n",
        ),
        (
            ask.SetThreshold(ports=(9,), type=AlarmType.LOS, mode=AlarmMode.CONT, low_dbm=-25, high_dbm=2),
            b"SET-TH-PMON::9:7:::TYPE=LOS,MODE=CONT,LOW=(-25),HIGH=2;\n",
        ),
        (ask.RetrieveThreshold(ports=(9,), type=AlarmType.LOS), b"RTRV-TH-PMON::9:7:::TYPE=LOS;\n"),
        (ask.RetrieveAlarm(ports=(9,), type=AlarmType.DEGRADED), b"RTRV-STATE-PMON::9:7:::TYPE=DEGRADED;\n"),
        (ask.ClearAlarm(ports=(9,), type=AlarmType.LOS), b"SET-STATE-PMON::9:7:::TYPE=LOS;\n"),
        (ask.CloseShutter(ports=(1, 2, 3, 4)), b"OPR-PORT-SHUTTER::1&&4:7:;\n"),
        (ask.OpenShutter(ports=(1, 2, 3, 4)), b"RLS-PORT-SHUTTER::1&&4:7:;\n"),
        (ask.RetrieveShutter(ports=(1,)), b"RTRV-PORT-SHUTTER::1:7:;\n"),
        (ask.RetrieveLabel(ports=(1,)), b"RTRV-PORT-LABEL::1:7:;\n"),
        (ask.EditLabel(ports=(2,), label="to h1"), b'ED-PORT-LABEL::2:7:::LABEL="to h1";\n'),
        (ask.EnterFlap(ports=(10,), off_ms=100, on_ms=500, cycles=3), b"ENT-PORT-FLAP::10:7::100,500,3;\n"),
        (ask.StartFlap(ports=(10,)), b"OPR-PORT-FLAP::10:7:;\n"),
        (ask.StopFlap(ports=(10,)), b"RLS-PORT-FLAP::10:7:;\n"),
        (ask.RetrieveFlap(), b"RTRV-PORT-FLAP:::7:;\n"),
        (ask.RetrieveAttenuators(), b"RTRV-EQPT::ATTEN:7:::PARAMETER=CONFIG;\n"),
        (ask.RetrieveAttenuation(ports=(33,)), b"RTRV-PORT-ATTEN::33:7:;\n"),
        (
            ask.SetAttenuation(ports=(33,), mode=AttenuationMode.ABSOLUTE, level=3.5),
            b"SET-PORT-ATTEN::33:7:::MODE=ABS,LEVEL=(3.5);\n",
        ),
        (
            ask.SetAttenuation(ports=(33, 34), mode=AttenuationMode.RELATIVE, level=3.0, references=(1, 2)),
            b"SET-PORT-ATTEN::33&34:7:::MODE=REL,LEVEL=(3),REFS=1&2;\n",
        ),
    ],
)
def test_requests_have_the_bytes_that_units_were_seen_to_take(request_: ask.Request, wire: bytes) -> None:
    assert tl1.encode_command(protocol.to_command(request_, ctag="7")) == wire


def test_ranges_pair_the_nth_with_the_nth() -> None:
    assert asked("ENT-PATCH::1&&3,49&&51:c:") == ask.EnterPatch(pairs=((1, 49), (2, 50), (3, 51)))


@pytest.mark.parametrize("text", ["RTRV-PATCH:::c:", "RTRV-PATCH::ALL:c:", "rtrv-patch::all:c"])
def test_all_patches_are_asked_for_in_old_and_new_words(text: str) -> None:
    assert asked(text) == ask.RetrievePatch()


@pytest.mark.parametrize(
    ("text", "code", "comment"),
    [
        ("ENT-PATCH::1:c:", "IIAC", "Two port lists"),
        ("DLT-PATCH::" + "9" * 5000, "IIAC", "Invalid OXC port"),
        ("ENT-PATCH::1&2,49:c:", "IIAC", "differ in length: 2 and 1"),
        ("DLT-PATCH::x:c:", "IIAC", "Invalid OXC port: x"),
        ("DLT-PATCH::3&&1:c:", "IIAC", "not a range"),
        ("DLT-PATCH:::c:", "IIAC", "not a group"),
        ("RTRV-EQPT::VOA:c:", "IIAC", ""),
        ("ED-EQPT::TIMEOUT:c:::ADMIN=soon", "IPNV", ""),
        ("SET-TH-PMON::9:c:::TYPE=NOISE", "IPNV", "TYPE is not one of LOS DEGRADED"),
        ("SET-TH-PMON::9:c:::TYPE=LOS,LOW=little", "IPNV", "LOW is not a number"),
        ("SET-PORT-PMON::9:c:::ATIME=4.5", "IPNV", "ATIME is not a number"),
        ("GET-TH-PMON::9:c:::TYPE=LOS", "IICM", ""),
        ("ENT-PORT-FLAP::9:c::10,500", "IPNV", "Three numbers"),
        ("ED-PORT-LABEL::9:c::", "IPNV", "LABEL is missing"),
        ("SET-PORT-ATTEN::33:c:::LEVEL=3", "IPNV", "MODE is not one of NONE FIX"),
        ("SET-PORT-ATTEN::33:c:::MODE=REL,LEVEL=3,REFS=1&2", "IIAC", "differ in length: 1 and 2"),
    ],
)
def test_a_wrong_command_is_denied_with_a_code(text: str, code: str, comment: str) -> None:
    with pytest.raises(protocol.DenyError) as denied:
        asked(text)
    assert denied.value.code == code
    assert comment in denied.value.text


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
    try:
        read(answer(text))
    except ProtocolError:
        pass
