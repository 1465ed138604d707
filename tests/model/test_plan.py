"""Plans, what their moves want of fibre ends, and how a switch differs from that."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.desired_state import DesiredEnd, crossconnects_of, difference, ends_after, free_ends_of, wanted_of
from hwd.model.document_list import DocumentList
from hwd.model.interlock import Interlock, InterlockName, InterlockState
from hwd.model.kinds import read_fact
from hwd.model.lease import HeldLease
from hwd.model.link import SwitchEnd
from hwd.model.plan import Plan
from hwd.model.plan_summary import PlanMade
from hwd.model.plural import plural
from hwd.model.reconfiguration import WantedSwitch
from hwd_drivers.core.structs import to_json
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

from ..texts import ends_of, pairs_of

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


def test_after_a_move_the_added_are_there_and_a_plan_without_moves_is_empty() -> None:
    assert MOVES.after == {TWO, THREE}
    assert str(MOVES) == "ocs1: -1A-2B +2A-1B (1 kept)"
    assert not PLAN.empty
    assert replace(PLAN, moves=(replace(MOVES, remove=(), add=()),)).empty


def test_hash_stands_for_moves_state_rules_refusals_and_reasons_and_not_for_what_is_expected() -> None:
    assert len(PLAN.hash) == 12
    assert changed(expected_s=9.0, warnings=("x",), touches=frozenset({"ocs1.1"})).hash == PLAN.hash
    others = [
        changed(moves=(replace(MOVES, before=(ONE,)),)),
        changed(moves=(replace(MOVES, add=()),)),
        changed(mode=ApplyMode.SAFE),
        changed(ready_within_s=None),
    ]
    assert len({plan.hash for plan in [PLAN, *others]}) == 5
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
    text = to_json(PLAN.summary).decode()
    assert text == (
        '{"hash":"fcd356752ba4","what":"ring","mode":"update","empty":false,'
        '"moves":[{"switch":"ocs1","remove":["1A-2B"],"add":["2A-1B"],"keep":["3A-4B"]}],"composites":[],"links":[],'
        '"dark":[],"expected_s":3.0,"expected_from":"records","warnings":[],"lease":null,"lease_epoch":null,"crash_rule":"roll-back",'
        '"ready_within_s":15.0,"confirm_within_s":null,"interlocks":[],"away":[],"isolation":null,"order":null,"prediction":null}'
    )
    made = PlanMade(plan=PLAN.summary, what=PLAN.what, hash=PLAN.hash)
    assert read_fact(made.KIND, to_json(made)) == made


def many(*texts: str) -> tuple[Crossconnect, ...]:
    return tuple(map(Crossconnect.parse, texts))


def moves(*, remove: str = "", add: str = "", keep: str = "") -> SwitchMoves:
    removed, added, kept = (many(*text.split()) for text in (remove, add, keep))
    return SwitchMoves(switch="ocs1", remove=removed, add=added, keep=kept, before=(*removed, *kept))


def wanted(crossconnects: str = "", free: str = "") -> WantedSwitch:
    return WantedSwitch(switch="ocs1", crossconnects=pairs_of(*crossconnects.split()), free=ends_of(*free.split()))


def ends(*after: WantedSwitch) -> dict[PortSide, DesiredEnd]:
    found: dict[PortSide, DesiredEnd] = {}
    for number, one in enumerate(after):
        found = ends_after(found, one, by=f"r{number}")
    return found


def reading(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> CrossconnectReading:
    return CrossconnectReading(crossconnect=Crossconnect.parse(text), state=state)


def test_moves_want_what_they_add_and_keep_and_the_last_of_an_end_counts() -> None:
    assert wanted_of([moves(remove="1A-2B 3A-4B", add="1A-4B", keep="5A-6B")]) == [wanted("1A-4B 5A-6B", "2B 3A")]
    freed = [SwitchEnd(switch="ocs1", end=PortSide.parse("9A"))]
    assert wanted_of([moves()], freed) == [wanted("", "9A")]
    assert wanted_of([moves()]) == []
    after = ends(wanted("1A-2B 3A-4B"), wanted("1A-4B"))
    assert (crossconnects_of(after), free_ends_of(after)) == (many("1A-4B"), tuple(map(PortSide.parse, ("2B", "3A"))))
    assert {str(end): one.by for end, one in after.items()} == {"1A": "r1", "2B": "r1", "3A": "r1", "4B": "r1"}
    assert ends(wanted("1A-2B"), wanted("1A-2B")).keys() == ends(wanted("1A-2B")).keys()


def test_difference_tells_missing_from_stale_from_what_nobody_asked_for_which_is_none() -> None:
    found = difference("ocs1", ends(wanted("1A-2B 3A-4B", "5A")), [*map(reading, ("3A-4B", "1A-7B", "5A-8B", "9A-9B"))])
    assert (found.missing, found.stale, found.unasked) == (many("1A-2B"), many("1A-7B", "5A-8B"), many("9A-9B"))
    assert str(found) == "ocs1: 1A-2B is missing, 1A-7B is stale, 5A-8B is stale"
    failed = [reading("1A-2B", CrossconnectState.FAILED)]
    assert difference("ocs1", ends(wanted("1A-2B")), failed).missing == many("1A-2B")
    assert not difference("ocs1", ends(wanted("1A-2B")), failed, but=frozenset({"ocs1.2"}))
    assert not difference("ocs1", {}, [reading("1A-2B")])


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 4), st.integers(1, 4)),
            max_size=3,
            unique_by=(lambda one: one[0], lambda one: one[1]),
        )
    )
)
def test_an_end_is_wanted_in_one_crossconnect_at_most_and_both_of_its_ends_agree(
    steps: list[list[tuple[int, int]]],
) -> None:
    after = ends(*(wanted(" ".join(f"{a}A-{b}B" for a, b in pairs)) for pairs in steps))
    for end, one in after.items():
        if one.crossconnect is not None:
            assert end in one.crossconnect.ends
            assert [after[other].crossconnect for other in one.crossconnect.ends] == [one.crossconnect] * 2


# --- counts and their nouns: `1 switch`, `2 switches`


ROOT = Path(__file__).parents[2]
NOUNS: Final = frozenset(
    """
    agents alarms arrays boots branches breaches channels columns commands connections crossconnects demands
    devices dimensions documents elements entries errors events experts failures falls faults fibres files
    flaps groups hosts inputs instants interfaces items iterations jobs kills leases links matrices members
    observations operations outputs pairs parts ports problems programs ranks reconfigurations reservations
    results rounds rows samples senders servers signals stages steps strands targets timelines times tokens
    transfers tries values words
    """.split()  # noqa: SIM905 - a list of so many words is a page
)
ALSO_VERBS: Final = frozenset({"ends", "moves", "names", "retries", "runs", "switches"})
"""Counted only where the figure before them looks like one."""
MANY: Final = re.compile(r".*[A-Z]{3,}.*|.*\bseveral\b.*")
"""Limits, and what is several: never one."""


def test_one_thing_has_its_noun_in_the_singular_in_answers_too() -> None:
    assert [plural(count, "link") for count in (0, 1, 2)] == ["0 links", "1 link", "2 links"]
    assert [plural(count, "switch", many="switches") for count in (1, 2)] == ["1 switch", "2 switches"]
    lease = HeldLease(lease="k3v9", holder="ada", ports=["ocs1.1"], expires_in_s=60.0)
    assert str(lease) == "lease k3v9 of ada on 1 port, 60 s left"
    assert str(DocumentList(last="b.1", missed=0, sent=[])) == "0 documents until b.1"


def unpaired(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """F-strings that put a number before a plural, other than by `plural`: the line, and the text."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for at, (figure, text) in enumerate(zip(node.values, node.values[1:], strict=False)):
            if not (isinstance(figure, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            found = re.match(r" (?:(?:more|other|new|such) )*([a-z-]+s)\b(?!=)(.*)", str(text.value), re.DOTALL)
            value = ast.unparse(figure.value)
            before = node.values[at - 1] if at > 1 else None
            is_total = isinstance(before, ast.Constant) and before.value in (
                " of ",
                " x ",
            )  # 1 of 1 switches, 1 x 1 hosts
            if (
                found is None
                or figure.format_spec
                or MANY.fullmatch(value)
                or is_total
                or "over the " in found[2]
                or "plural(" in value
            ):
                continue
            if found[1] in NOUNS or (found[1] in ALSO_VERBS and re.match(r"(len|sum)\(|count$|more$", value)):
                yield figure.lineno, f"{{{value}}}{text.value!s}"


def test_no_text_of_ours_says_one_of_a_plural() -> None:
    text = 'f"{len(found)} switches"; f"{a} of {b} hosts"; f"{count} links"; f"{who} runs"; f"{plural(n, \'link\')} up"'
    assert [words for _, words in unpaired(ast.parse(text))] == ["{len(found)} switches", "{count} links"]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / "hwd").rglob("*.py"))
        if path.relative_to(ROOT).parts[1] not in ("sim", "testing")  # told to us alone
        for line, text in unpaired(ast.parse(path.read_text()))
    ]
    assert found == [], "write {plural(count, 'noun')}"


def test_no_page_and_no_golden_text_says_one_of_a_plural() -> None:
    nouns = "|".join(sorted(NOUNS | ALSO_VERBS))
    wrong = re.compile(rf"(?<![\d.,x=])(?<!of )\b1 ({nouns})\b(?! of)")
    texts = [
        path for folder in ("docs", "tests") for end in ("md", "txt") for path in (ROOT / folder).rglob(f"*.{end}")
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in texts
        for line in path.read_text().splitlines()
        if wrong.search(line)
    ]
    assert found == []
