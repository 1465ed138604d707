from dataclasses import replace
from typing import Any

import msgspec

from hwd.model.documents.plans import PlanMade
from hwd.model.interlock import Interlock, InterlockName, InterlockState
from hwd.model.kinds import read_fact
from hwd.model.plan import Plan
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

ONE, TWO, THREE = (Crossconnect.parse(text) for text in ("1A-2B", "2A-1B", "3A-4B"))
MOVES = SwitchMoves(switch="ocs1", remove=(ONE,), add=(TWO,), keep=(THREE,), before=(ONE, THREE))
PLAN = Plan(
    what="ring",
    mode=ApplyMode.UPDATE,
    moves=(MOVES,),
    links=(),
    dark=(),
    touches=frozenset(),
    expected_s=3.0,
    expected_from="records",
    warnings=(),
    lease=None,
    ready_within_s=15.0,
    confirm_within_s=None,
)


def changed(**fields: Any) -> Plan:
    """The plan with other fields, and with the hash that follows from these."""
    return replace(PLAN, hash="", **fields)


def test_after_a_move_the_added_are_there_and_the_removed_are_not() -> None:
    assert MOVES.after == {TWO, THREE}
    assert str(MOVES) == "ocs1: -1A-2B +2A-1B (1 kept)"


def test_plan_without_moves_is_empty() -> None:
    assert not PLAN.empty
    assert replace(PLAN, moves=(replace(MOVES, remove=(), add=()),)).empty


def test_hash_stands_for_moves_state_and_rules_and_not_for_what_is_expected() -> None:
    assert len(PLAN.hash) == 12
    assert changed(expected_s=9.0, warnings=("x",), touches=frozenset({"ocs1.1"})).hash == PLAN.hash
    others = [
        changed(moves=(replace(MOVES, before=(ONE,)),)),
        changed(moves=(replace(MOVES, add=()),)),
        changed(mode=ApplyMode.SAFE),
        changed(ready_within_s=None),
    ]
    assert len({plan.hash for plan in [PLAN, *others]}) == 5


def test_hash_stands_for_what_interlocks_refuse_and_for_the_reasons_of_overrides() -> None:
    holds = Interlock(
        name=InterlockName.RATE, subject="ocs1", figure=1, limit=3, unit="changes", state=InterlockState.HOLDS
    )
    refused = msgspec.structs.replace(holds, state=InterlockState.REFUSED)
    assert changed(interlocks=(holds,)).hash == PLAN.hash
    assert changed(interlocks=(msgspec.structs.replace(refused, figure=9),)).hash == (
        changed(interlocks=(refused,)).hash
    ), "a figure that grows is the same refusal"
    overrides = [msgspec.structs.replace(refused, state=InterlockState.OVERRIDDEN, reason=reason) for reason in "ab"]
    hashes = {changed(interlocks=(one,)).hash for one in (holds, refused, *overrides)}
    assert len(hashes) == 4


def test_plan_as_json_has_its_hash_and_is_read_back_from_its_document() -> None:
    text = msgspec.json.encode(PLAN.summary).decode()
    assert text == (
        '{"hash":"fcd356752ba4","what":"ring","mode":"update","empty":false,'
        '"moves":[{"switch":"ocs1","remove":["1A-2B"],"add":["2A-1B"],"keep":["3A-4B"]}],"composites":[],"links":[],'
        '"dark":[],"expected_s":3.0,"expected_from":"records","warnings":[],"lease":null,"lease_epoch":null,"crash_rule":"roll-back",'
        '"ready_within_s":15.0,"confirm_within_s":null,"interlocks":[],"away":[],"isolation":null,"order":null,"prediction":null}'
    )
    made = PlanMade(plan=PLAN.summary, what=PLAN.what, hash=PLAN.hash)
    assert read_fact(made.KIND, msgspec.json.encode(made)) == made
