"""Polatis verbs: every request has one form on the wire, and what a unit would deny is denied."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwd_drivers.kit import tl1
from hwd_drivers.kit.errors import ProtocolError
from hwd_drivers.kit.tl1_messages import Answer, Completion
from hwd_drivers.polatis.numbering import Numbering
from hwd_drivers.polatis.tl1 import protocol as polatis

numbering = Numbering(inputs=8, outputs=8)
port_lists = st.lists(st.integers(1, 640), min_size=1, max_size=30, unique=True)
requests = st.one_of(
    st.builds(polatis.Login, user=st.text("abc:;", min_size=1), password=st.text('abc;":,', min_size=1)),
    st.builds(polatis.Logout, user=st.text("abc", min_size=1)),
    st.sampled_from(
        [
            polatis.Ping(),
            polatis.MuteReports(),
            polatis.RetrieveType(),
            polatis.RetrieveInventory(),
            polatis.RetrieveSize(),
            polatis.RetrieveMonitors(),
            polatis.RetrievePatch(),
            polatis.DeletePatch(ports=None),
        ]
    ),
    st.builds(polatis.SetIdleTimeout, timeout_s=st.integers(0, 9999)),
    st.builds(
        polatis.EnterPatch,
        pairs=port_lists.map(lambda ports: tuple(zip(ports[::2], ports[1::2], strict=False))).filter(bool),
        forced=st.booleans(),
    ),
    st.builds(polatis.DeletePatch, ports=port_lists.map(tuple), forced=st.booleans()),
    st.builds(polatis.RetrievePatch, ports=port_lists.map(tuple)),
    st.builds(polatis.RetrievePower, ports=port_lists.map(tuple)),
)


def answer(*lines: str) -> Answer:
    return Answer(ctag="1", code=Completion.COMPLD, lines=lines)


def asked(text: str) -> polatis.Request:
    return polatis.from_command(tl1.parse_command(text))


@given(requests)
def test_requests_come_back_as_they_were(request: polatis.Request) -> None:
    wire = tl1.encode_command(polatis.to_command(request, ctag="12"))
    (text,) = tl1.CommandDecoder().feed(wire)
    assert polatis.from_command(tl1.parse_command(text)) == request


@pytest.mark.parametrize(
    ("request_", "wire"),
    [
        (polatis.Login(user="admin", password="root"), b"ACT-USER::admin:7::root;\n"),
        (polatis.Logout(user="admin"), b"CANC-USER::admin:7:;\n"),
        (polatis.Ping(), b"RTRV-HDR:::7:;\n"),
        (polatis.MuteReports(), b"OPR-ARC-EQPT::REPMGR:7::IND;\n"),
        (polatis.SetIdleTimeout(timeout_s=600), b"ED-EQPT::TIMEOUT:7:::ADMIN=600;\n"),
        (polatis.RetrieveType(), b"RTRV-NETYPE:::7:;\n"),
        (polatis.RetrieveInventory(), b"RTRV-INV::OCS:7:;\n"),
        (polatis.RetrieveSize(), b"RTRV-EQPT::SYSTEM:7:::PARAMETER=SIZE;\n"),
        (polatis.RetrieveMonitors(), b"RTRV-EQPT::PMON:7:::PARAMETER=CONFIG;\n"),
        (polatis.EnterPatch(pairs=((1, 49),)), b"ENT-PATCH::1,49:7:;\n"),
        (polatis.EnterPatch(pairs=((1, 50), (2, 49)), forced=True), b"ENT-PATCH::1&2,50&49:7::frcd;\n"),
        (polatis.DeletePatch(ports=(1, 5)), b"DLT-PATCH::1&5:7:;\n"),
        (polatis.DeletePatch(ports=None), b"DLT-PATCH::ALL:7:;\n"),
        (polatis.RetrievePatch(), b"RTRV-PATCH:::7:;\n"),
        (polatis.RetrievePower(ports=(1, 2, 3, 48)), b"RTRV-PORT-POWER::1&&3&48:7:;\n"),
    ],
)
def test_requests_have_the_bytes_that_units_were_seen_to_take(request_: polatis.Request, wire: bytes) -> None:
    assert tl1.encode_command(polatis.to_command(request_, ctag="7")) == wire


def test_ranges_pair_the_nth_with_the_nth() -> None:
    assert asked("ENT-PATCH::1&&3,49&&51:c:") == polatis.EnterPatch(pairs=((1, 49), (2, 50), (3, 51)))


@pytest.mark.parametrize("text", ["RTRV-PATCH:::c:", "RTRV-PATCH::ALL:c:", "rtrv-patch::all:c"])
def test_all_patches_are_asked_for_in_old_and_new_words(text: str) -> None:
    assert asked(text) == polatis.RetrievePatch()


@pytest.mark.parametrize(
    ("text", "code", "comment"),
    [
        ("ENT-PATCH::1:c:", "IIAC", "Two port lists"),
        ("DLT-PATCH::" + "9" * 5000, "IIAC", "Invalid OXC port"),
        ("ENT-PATCH::1&2,49:c:", "IIAC", "differ in length: 2 and 1"),
        ("DLT-PATCH::x:c:", "IIAC", "Invalid OXC port: x"),
        ("DLT-PATCH::3&&1:c:", "IIAC", "not a range"),
        ("DLT-PATCH:::c:", "IIAC", "not a group"),
        ("RTRV-PORT-ATTEN::33:c:", "IICM", ""),
        ("RTRV-EQPT::VOA:c:", "IIAC", ""),
        ("ED-EQPT::TIMEOUT:c:::ADMIN=soon", "IPNV", ""),
    ],
)
def test_a_wrong_command_is_denied_with_a_code(text: str, code: str, comment: str) -> None:
    with pytest.raises(polatis.DenyError) as denied:
        asked(text)
    assert denied.value.code == code
    assert comment in denied.value.text


def test_answers_are_read_as_they_were_written() -> None:
    assert polatis.read_patches(answer(*polatis.write_patches([(1, 9), (3, 12)]))) == ((1, 9), (3, 12))
    assert polatis.read_powers(answer(*polatis.write_powers([(9, -3.216), (10, None)], dark_dbm=-60))) == {
        9: -3.22,
        10: -60.0,
    }
    unit = polatis.UnitType(vendor="Polatis", model="OST-8x8", type="OXC", version="6.5.1.7")
    assert polatis.read_type(answer(*polatis.write_type(unit))) == unit
    assert polatis.read_serial(answer(*polatis.write_serial("S12345"))) == "S12345"
    assert polatis.read_size(answer(*polatis.write_size(numbering))) == numbering
    assert polatis.read_monitors(answer(*polatis.write_monitors([1, 9], numbering))) == (1, 9)
    assert polatis.write_monitors([9], numbering) == ("PMON::PORT=9,MODE=OUTPUT",)


@pytest.mark.parametrize(
    "read",
    [
        polatis.read_patches,
        polatis.read_powers,
        polatis.read_type,
        polatis.read_serial,
        polatis.read_size,
        polatis.read_monitors,
    ],
)
@given(text=st.text(max_size=20))
@example(text="1," + "9" * 5000)
@example(text="1:" + "9" * 5000)
@example(text="SIZE=1x" + "9" * 5000)
@example(text="PORT=" + "9" * 5000)
def test_a_wrong_data_line_is_a_protocol_error(read: object, text: str) -> None:
    assert callable(read)
    try:
        read(answer(text))
    except ProtocolError:
        pass
