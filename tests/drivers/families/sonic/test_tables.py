"""Readings and commands from the two tables of a SONiC switch: no end twice, no pair twice in a list."""

from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.families.sonic import protocol
from hwd_drivers.families.sonic.protocol import Row
from hwd_drivers.families.sonic.tables import Tables

PAIRS = [Crossconnect.parse(f"{near}A-{far}B") for near in range(1, 4) for far in range(1, 4)]
STATES = (CrossconnectState.TUNED, CrossconnectState.TUNING, CrossconnectState.BLOCKED)


def pairs(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


def tables(*, configured: list[Crossconnect], there: list[Crossconnect]) -> Tables:
    tuned = CrossconnectState.TUNED
    return Tables(
        configured=frozenset(configured),
        rows={pair: Row(pair=pair, a_state=tuned, b_state=tuned) for pair in there},
        received_ns=0,
    )


def apart(some: list[Crossconnect]) -> list[Crossconnect]:
    """Those of them that share no end with an earlier one."""
    kept: list[Crossconnect] = []
    for pair in some:
        if not any(set(pair.ends) & set(other.ends) for other in kept):
            kept.append(pair)
    return kept


some_pairs = st.lists(st.sampled_from(PAIRS), unique=True)


@given(configured=some_pairs, there=some_pairs)
def test_readings_never_hold_two_crossconnects_at_one_end(
    configured: list[Crossconnect], there: list[Crossconnect]
) -> None:
    look = tables(configured=apart(configured), there=there)
    readings = look.readings()
    ends = [end for reading in readings for end in reading.crossconnect.ends]
    assert len(ends) == len(set(ends))
    for reading in readings:
        if reading.state is CrossconnectState.TUNED:
            assert reading.crossconnect in look.configured
            assert reading.crossconnect in look.rows


@given(configured=some_pairs, there=some_pairs, add=some_pairs, data=st.data())
def test_the_commands_lead_to_the_wanted_state_on_a_correct_switch(
    configured: list[Crossconnect], there: list[Crossconnect], add: list[Crossconnect], data: st.DataObject
) -> None:
    """A switch for this test: `add` replaces configured pairs, which go dark; pairs in the optics only stay."""
    look = tables(configured=apart(configured), there=there)
    remove = data.draw(st.lists(st.sampled_from([*look.configured, *look.rows] or PAIRS), unique=True))
    wanted = apart(add)
    commands = look.commands(remove, wanted)
    has, shows = set(look.configured), set(look.rows)
    for line in commands.lines:
        *_, verb, text = line.removesuffix(" update").split()
        named = protocol.parse_list(text)
        ends = [end for pair in named for end in pair.ends]
        assert len(ends) == len(set(ends)), "a port stands twice"
        if verb == "delete":
            assert has.issuperset(named), "it does not exist"
            has.difference_update(named)
            shows.difference_update(named)
        else:
            replaced = {pair for pair in has if pair not in named and set(pair.ends) & set(ends)}
            has = has - replaced | set(named)
            shows = shows - replaced | set(named)
    assert has.issuperset(commands.made)
    assert shows.issuperset(commands.made)
    assert set(commands.made).issuperset(wanted)
    gone = set(remove) - set(wanted)
    assert has.isdisjoint(gone)
    assert shows.isdisjoint(gone)
    taken = {end for pair in wanted for end in pair.ends}
    assert all(pair in wanted for pair in shows if set(pair.ends) & taken), "nothing stays beside what was made"
    untouched = {
        pair for pair in look.configured & look.rows.keys() if pair not in remove and not set(pair.ends) & taken
    }
    assert has >= untouched
    assert shows >= untouched


def test_a_stale_pair_at_the_same_port_makes_a_configured_one_failed_and_is_removed_with_it() -> None:
    look = tables(configured=pairs("1A-2B"), there=pairs("1A-1B", "1A-2B"))
    assert [str(each) for each in look.readings()] == ["1A-2B failed"]
    assert look.remarks() == ("1A-1B is tuned, and in no configuration",)
    assert look.commands(pairs("1A-2B"), ()).lines == (
        "config ocs cross-connect add 1A-1B update",
        "config ocs cross-connect delete 1A-1B",
    )


def test_a_replaced_pair_that_must_stay_is_made_again() -> None:
    look = tables(configured=pairs("1A-1B", "2A-2B"), there=pairs("1A-1B", "1A-2B", "2A-2B"))
    commands = look.commands(pairs("1A-2B"), ())
    assert commands.lines[-1] == "config ocs cross-connect add 1A-1B,2A-2B update"
    assert commands.made == tuple(pairs("1A-1B", "2A-2B"))
