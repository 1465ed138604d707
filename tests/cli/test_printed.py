"""What commands make of words, and print of answers, held by a golden file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hwd.cli.apply_progress import step_line
from hwd.cli.commands import block
from hwd.cli.commands.leases import _say_ended_sets, claim_line
from hwd.cli.commands.restore import history_row
from hwd.cli.commands.sets import _overriding, _targets
from hwd.cli.commands.watch import missed_line, show
from hwd.cli.output import Output, size
from hwd.cli.output import words as words_of
from hwd.cli.plan_lines import composite_lines
from hwd.cli.run_command import text_of
from hwd.cli.run_steps import Step, folded, steps_of, switches_left
from hwd.cli.status_lines import show_leases, show_sets
from hwd.config import topologies
from hwd.config.shipped_file import names_of
from hwd.daemon.installed_drivers import load
from hwd.model import testbed_diff
from hwd.model.daemon import DaemonRecovered, JournalGivenUp, JournalOpen
from hwd.model.kinds import UnreadFact
from hwd.model.lease import HeldLease
from hwd.model.plan_summary import PlanComposite
from hwd.model.prediction import PredictedTime
from hwd.model.prepared_set import PreparedSetStatus, SetTarget
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationStep
from hwd.model.run_facts import RunStep
from hwd.model.switch import HeldEnds, SwitchOverrun
from hwd.model.testbed import Testbed
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.structs import from_plain
from hwd_drivers.core.values import PortOverride
from hwd_drivers.devices.facts import SwitchOverride, SwitchRestarted

from ..answers import check_golden
from ..texts import ends_of, links_of, pairs_of

GOLDEN = Path(__file__).with_name("printed.txt")
AT_NS = 1_800_000_000 * 10**9
LEASE: dict[str, Any] = {
    "lease": "r2",
    "kind": "reserved",
    "holder": "eva",
    "ports": ["ocs1.1"],
    "expires_in_s": 900.0,
    "for_s": 900.0,
    "at_wall_ns": AT_NS,
}
SET: dict[str, Any] = {
    "prepared_set": "p7x2a1b9",
    "lease": "k3v9a1xx",
    "holder": "ada",
    "rule": "finish",
    "at": "day",
    "why": "",
    "switching": None,
    "targets": [SetTarget(target=name, what="", crossconnects=[], links=[]) for name in ("before", "day")],
    "ports": ["ocs1.1", "ocs1.2"],
    "expires_in_s": None,
}
PLANNED: dict[str, Any] = {
    "composite": "sel",
    "remove": ["1A-1B"],
    "add": [],
    "keep": [],
    "through": {},
    "moves": 0,
    "moves_at_least": 0,
    "darkened": 0,
}
HELD = [
    {"switch": "ocs1", "ends": ["3A", "4A"], "to": "force-blocked", "blocked": ["1A", "3A", "4A"]},
    {"switch": "ocs2", "ends": ["1B"], "to": "normal", "blocked": []},
]


GLASS, TWIN, OWNED = (
    f"  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 2x2, {more}}}\n"
    for more in ("address: '10.0.0.5:3082'", "twin: {seed: 1}", "owner: h0, twin: {seed: 1}")
)


def rack(file: Path, switch: str) -> Testbed:
    other = "  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 2x2, twin: {seed: 2}}\n"
    text = f"testbed: t\nswitches:\n{other}{switch}hosts: {{h0: {{twin: {{}}}}}}\nfibres: []\n"
    path = file.with_name("rack.yaml")
    path.write_text(text)
    return load(path).require()


OVERRUN = SwitchOverrun(switch="ocs1", reconfiguration="r1", lost=pairs_of("1A-2B", "3A-4B"), window_s=0.0123)
RESTARTED = SwitchRestarted(switch="ocs1", sign="at-rest", lost=pairs_of("1A-2B"), uptime_s=None, unheard_s=7.5)
OVERRIDE = SwitchOverride(switch="ocs1", ends=ends_of("1A", "2B"), to=PortOverride.FORCE_BLOCKED, by="ada")
UNREAD = UnreadFact(kind="switch.restarted", fields={"switch": "ocs1", "lost": 3, "at_ns": 4}, why="lost")
WAY = ["lease", *["apply a", "apply b"] * 50, "note 2 pairs: 5 ms", *["apply c"] * 3, "note end"]
LEFT: dict[str, Any] = {"reconfiguration": "r1", "run": "k3v9"}
OPEN = JournalOpen(what="ring", why="ocs1: the switch is down", **LEFT)
BACK = DaemonRecovered(outcome="rolled-back", why="", **LEFT)
GIVEN_UP = JournalGivenUp(what="ring", why="", by="ada", left=["ocs1: 1A-2B tuned"], **LEFT)
ERRORS = (
    ConfigError("2 daemons run\n  --url a\n  --url b"),
    ConfigError("f:1: x\nf:2: y"),
    ConfigError("f:1: x"),
    RefusedError("no"),
)


def told(fact: Fact) -> Document:
    return Document(at_ns=0, wall_ns=AT_NS, fact=fact)


def run_step(number: int, what: str, state: str) -> Document:
    return told(RunStep(run="k3v9", step=number, what=what, state=state, done=0, total=2, expected_s=None))


def of_runs() -> Iterator[tuple[str, object]]:
    """The way of a run, folded, and where it has left its switches."""
    for whats in (WAY, ["a"], ["a", "a"], ["a", "b", "a", "b"], ["a", "b", "c"], ["fails"] * 9):
        steps = [Step(number=number, what=what, state="done") for number, what in enumerate(whats, start=1)]
        failed = [Step(number=10, what="fails", state="failed")] if "fails" in whats else []
        yield from ((f"steps of {len(whats)}", row) for row in folded([*steps, *failed]))
    way = [run_step(1, "lease", "started"), run_step(1, "lease", "done"), run_step(2, "apply ring", "started")]
    for words, ended in (("ended", True), ("under way", False)):
        yield from (
            (f"a step of a run that is {words}", f"{one.number} {one.state}") for one in steps_of(way, ended=ended)
        )
    for safe_state, facts in (
        ("unknown", (OPEN, BACK)),
        ("unknown", (OPEN,)),
        ("unknown", ()),
        ("unknown", (OPEN, GIVEN_UP)),
        ("before-apply", (OPEN, BACK)),
        (None, ()),
    ):
        yield "its switches", repr(switches_left(safe_state, [*map(told, facts)]))


def made_set(**more: Any) -> PreparedSetStatus:
    return PreparedSetStatus(**{**SET, **more})


def lease(**more: Any) -> HeldLease:
    return HeldLease(**{**LEASE, **more})


def step(number: int, state: str, *, made: int = 1) -> ReconfigurationStep:
    links = [f"h0.eth{port}<->h1.eth{port}" for port in range(made)]
    return ReconfigurationStep(reconfiguration="r1", step=number, steps=2, state=state, made=links_of(*links), dark=[])


def history(what: str) -> HistoryEntry:
    return HistoryEntry(reconfiguration=None, wall_ns=10**18, ended_wall_ns=10**18, what=what, outcome="reloaded")


def answer(read: Callable[[Any], object], asked: object) -> str:
    try:
        return f"{asked!r}: {read(asked)}"
    except ConfigError as error:
        return f"{asked!r} is refused: {error}"


def texts(file: Path) -> Iterator[tuple[str, object]]:
    """What is said, by what it is of."""
    for counts in (
        {},
        {"darkened": 5},
        {"darkened": 1},
        {"moves": 2, "moves_at_least": 1, "darkened": 1},
        {"moves": 1, "moves_at_least": 1},
    ):
        yield "a composite", composite_lines(from_plain({**PLANNED, **counts}, PlanComposite))[0]
    for one in (step(1, "begun"), step(2, "begun", made=6), step(2, "done")):
        yield "a step", step_line(one)
    for for_s in (900.0, 30.0):
        yield f"a reservation for {for_s} s", claim_line(lease(for_s=for_s, heard_within_s=300.0))
    for what in ("job probe added", "; ".join(f"job train{number} added" for number in range(60))):
        yield "an entry of the history", history_row(history(f"testbed file: {what}"))[2]
    for p50_s, p99_s in ((0.0, 0.01234), (0.5678, 1.234), (12.345, 123.45), (2345.6, None)):
        time = PredictedTime(p50_s=p50_s, p99_s=p99_s, observations=120, of="ocs1", why="12 observations, 99 needed")
        yield "a predicted time", time
    for before, after in (("", GLASS), (GLASS, ""), ("", TWIN), (TWIN, ""), (GLASS, TWIN), ("", OWNED), (OWNED, "")):
        for change in testbed_diff.testbed_diff(rack(file, before), rack(file, after)):
            things = f"{sorted(change.ports)} {sorted(change.switches)}"
            yield "a reload", f"{change}; {change.obstacle or 'may be'}; {things}"
    yield "words of block", answer(block.parse_words, ["ocs1:3A,4A..6A", "ocs2:1B", "ocs1:7B"])
    for word in ("ocs1", "3A", ":3A", "ocs1:", "ocs1:3A,", "ocs1:,3A", ""):
        yield "words of block", answer(block.parse_words, ["ocs1:1A", word])
    for words in (["day=ring hosts=h0,h1 rail=0", f"night={file}"], ["day"], ["ring hosts=h0,h1"], ["a=x", "a=y"]):
        yield "words of prepare", answer(_targets, words)
    for value in (6.737999674999999, 12345.678901, 0.004_213_7, 3.0, -0.9, 0.0, 7, True, "ring"):
        yield f"{value!r} in a line", words_of({"expected_s": value})
    yield "stamps and what is empty", words_of({"at_ns": 5, "why": "", "run": "k3v9", "links": []})
    for count in (1, 435, 12_340, 4_560_000):
        yield "a size", size(count)
    for error in ERRORS:
        yield "an error", text_of(error)
    yield from of_runs()
    for since in (None, "5m"):
        yield "missed", missed_line(3, since=since)
    for reason in (None, "job=measures the loss", "measures the loss", "", "job=", "job=  "):
        yield "a reason", answer(_overriding, reason)


@pytest.mark.usefixtures("in_utc")
def test_commands_read_and_print_what_they_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("night.yaml")
    file.write_text("links: []\n")
    lines = [f"{of}: {said}" for of, said in texts(file)]
    output = Output(json=False)
    show_leases(output, [lease(lease="r1"), lease(waits_for=["ocs1.1: held by prepared set s1 of ada"])])
    show_leases(output, [lease(kind="waiting", at_wall_ns=None, expires_in_s=None, place=1, waits_for=["ocs1.1: x"])])
    _say_ended_sets(output, lease())
    _say_ended_sets(output, lease(ended_sets=["p7"]))
    show_sets(output, [made_set(), made_set(prepared_set="q8", at=None, why="ocs1: no answer", expires_in_s=60.0)])
    show_sets(output, [])
    for fact in (OVERRUN, RESTARTED, OVERRIDE, UNREAD):
        show(output, told(fact), "b.1")
    for fact in (OVERRUN, UNREAD):
        show(Output(json=True), told(fact), "b.1")
    held = from_plain(HELD, list[HeldEnds])
    block.show(output, held)
    block.show(Output(json=True), held)
    check_golden(GOLDEN, "\n".join([*lines, "", capsys.readouterr().out]))


def test_no_playbook_of_hwd_has_the_name_of_a_topology() -> None:
    assert {*topologies.names()}.isdisjoint(names_of("playbooks"))
