"""SONiC's lists and tables: round trips; nonsense is a ProtocolError or ConfigError, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortOverride, PortSide
from hwd_drivers.families.sonic import protocol
from hwd_drivers.families.sonic.protocol import LIST_LIMIT, TABLE_BYTES, Mode, Row
from hwd_drivers.families.sonic.tables import Tables

ports = st.integers(1, 320)
pairs = st.builds(lambda one, other: Crossconnect.parse(f"{one}A-{other}B"), ports, ports)
states = st.sampled_from(["blocked", "tuning", "tuned", "failed"])


def pair(text: str) -> Crossconnect:
    return Crossconnect.parse(text)


def test_commands_are_as_the_design_has_them() -> None:
    both = [pair("1A-1B"), pair("2A-5B")]
    assert protocol.add(both, Mode.UPDATE) == "config ocs cross-connect add 1A-1B,2A-5B update"
    assert protocol.delete(both) == "config ocs cross-connect delete 1A-1B,2A-5B"
    blocked = protocol.set_port(PortSide.parse("1A"), PortOverride.FORCE_BLOCKED)
    assert blocked == "config ocs port state 1A force_blocked"


def test_a_list_has_a_limit() -> None:
    assert len(protocol.parse_list(f"1A..{LIST_LIMIT}A-1B..{LIST_LIMIT}B")) == LIST_LIMIT
    with pytest.raises(ConfigError, match="Over"):
        protocol.parse_list(f"1A..{LIST_LIMIT}A-1B..{LIST_LIMIT}B,1A-1B")


@given(st.lists(pairs, max_size=20))
def test_a_list_that_is_written_is_read(wanted: list[Crossconnect]) -> None:
    if wanted:
        assert protocol.parse_list(protocol.format_list(wanted)) == wanted


@given(
    st.lists(st.tuples(pairs, states, states), max_size=20, unique_by=lambda row: row[0]),
    st.sampled_from(["", "Add cross-connect succeeded\n"]),
)
def test_a_written_table_is_read_and_lines_after_it_are_returned(
    rows: list[tuple[Crossconnect, str, str]], behind: str
) -> None:
    cells = [(str(each), str(each.a), str(each.b), one, other) for each, one, other in rows]
    text = protocol.write_table(protocol.STATUS_COLUMNS, cells) + behind
    found, rest = protocol.read_status(protocol.lines_of(text.encode()))
    assert found == [
        Row(pair=each, a_state=CrossconnectState(one), b_state=CrossconnectState(other)) for each, one, other in rows
    ]
    assert list(rest) == behind.splitlines()


def test_an_answer_has_a_limit() -> None:
    with pytest.raises(ProtocolError, match=str(TABLE_BYTES)):
        protocol.lines_of(b"x" * (TABLE_BYTES + 1))


def test_a_version_without_a_serial_number_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="Serial Number"):
        protocol.read_version("SONiC Software Version: SONiC.1\nHwSKU: x\n")


@pytest.mark.parametrize(("one", "other"), [("degraded", "tuned"), ("tuned", "locked"), ("aging", "odd")])
def test_state_of_a_newer_firmware_is_never_tuned_and_is_named(one: str, other: str) -> None:
    text = protocol.write_table(protocol.STATUS_COLUMNS, [("1A-2B", "1A", "2B", one, other)])
    ((row,), _) = protocol.read_status(protocol.lines_of(text.encode()))
    assert row.state is CrossconnectState.TUNING
    word = one if one != "tuned" else other
    assert row.unknown == repr(word)
    look = Tables(configured=frozenset({row.pair}), rows={row.pair: row}, received_ns=0)
    assert look.finding(row.pair) == f"{word!r}, which is not known here"
    assert look.remarks() == (f"1A-2B is {word!r}, which is not known here",)
    assert [reading.state for reading in look.readings()] == [CrossconnectState.TUNING]


def test_state_of_a_port_that_is_not_known_is_returned_as_it_is() -> None:
    rows = [("1A", "x", "normal"), ("1B", "x", "degraded")]
    text = protocol.write_table(protocol.PORT_CONFIG_COLUMNS, rows)
    found = protocol.read_overrides(protocol.lines_of(text.encode()))
    assert {str(end): state for end, state in found.items()} == {"1A": PortOverride.NORMAL, "1B": "degraded"}
    assert [isinstance(state, PortOverride) for state in found.values()] == [True, False]
