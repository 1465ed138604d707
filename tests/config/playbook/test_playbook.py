"""Playbooks: steps and parameters become values; an apply that an interlock would refuse, and its override."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.config.playbook import effort, expression, leaf_steps, parameters, playbook, playbook_schema, steps_reader
from hwd.config.playbook.expression import Expression, UnknownError, Value, fill_text, names_in, substitute
from hwd.config.playbook.measurement_names import MEASUREMENTS
from hwd.config.playbook.playbook import LoadedPlaybook, load_playbook, load_playbook_text
from hwd.config.playbook.steps import ApplyStep, LeaseStep, RepeatStep, WaitStep
from hwd.model.interlock import InterlockName, InterlockRules
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.switching.moves import ApplyMode

PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
HEAD = "playbook: p\nsteps:\n"

Read = Callable[..., LoadedPlaybook]


def test_shipped_playbooks_are_sound_on_the_opus_testbed(opus: Testbed) -> None:
    """But for those whose jobs are in a testbed file of their own."""
    with_jobs = ("mfabric-training", "mfabric-activation")
    paths = [path for path in sorted(PLAYBOOKS.glob("*.yaml")) if path.stem not in with_jobs]
    loaded = [load_playbook(path, testbed=opus) for path in paths]
    assert [one.problems for one in loaded] == [()] * 9
    assert [one.require().name for one in loaded] == [path.stem for path in paths]


def test_timeline_playbook_alternates_two_topologies(opus: Testbed) -> None:
    playbook = load_playbook(PLAYBOOKS / "reconfiguration-timeline.yaml", {"repeats": "3"}, testbed=opus).require()
    lease, repeat = playbook.steps
    assert (str(lease), str(repeat)) == ("lease all for 600 s", "repeat 3 times")
    assert isinstance(repeat, RepeatStep)
    assert list(map(str, repeat.steps)) == [
        "apply ring groups=dp",
        "wait until ready, 15 s at most",
        "apply pairs groups=pp",
        "wait until ready, 15 s at most",
    ]
    assert playbook.total_steps == 13
    assert (playbook.report.by, playbook.report.compare_with) == (("topology", "stage"), "opus-testbed")
    ring, pairs = (step.request.wanted for step in repeat.steps if isinstance(step, ApplyStep))
    assert ring is not None
    assert pairs is not None
    assert not set(ring.links) & set(pairs.links)


def test_steps_become_values(read: Read) -> None:
    playbook = read(
        HEAD
        + """
  - lease: {ports: [ocs1.1, h0.eth0], for_s: 60}
  - apply: {topology: ring, hosts: [h0, h1], rail: 0, mode: overwrite, ready_within_s: 5}
  - apply: {pairs: "ocs1:1A-2B,2A-1B", mode: safe}
"""
    ).require()
    lease, apply, wait, pairs = playbook.steps
    assert lease == LeaseStep(ports=("ocs1.1", "h0.eth0"), for_s=60.0)
    assert isinstance(apply, ApplyStep)
    assert isinstance(wait, WaitStep)
    assert isinstance(pairs, ApplyStep)
    assert (apply.request.body.what, apply.request.body.mode) == ("ring hosts=h0,h1 rail=0", ApplyMode.OVERWRITE)
    assert (wait.until, wait.within_s) == ("ready", 5.0)
    assert list(map(str, pairs.request.wanted.crossconnects)) == ["ocs1:1A-2B", "ocs1:2A-1B"]


def test_links_are_applied_by_their_nic_ports_or_from_a_topology_file_beside_the_playbook(
    read: Read, tmp_path: Path
) -> None:
    for what in (
        "links: [h0.eth0 <-> h2.eth0, h1.eth1<->h3.eth1]",
        "links: 'h0.eth0 <-> h2.eth0, h1.eth1<->h3.eth1'",
        "topology: 'h0.eth0<->h2.eth0 h1.eth1<->h3.eth1'",
    ):
        (apply, _) = read(HEAD + f"\n  - apply: {{{what}, ready_within_s: 5}}\n").require().steps
        assert isinstance(apply, ApplyStep)
        assert list(map(str, apply.request.wanted.links)) == ["h0.eth0<->h2.eth0", "h1.eth1<->h3.eth1"]
        assert {"h0.eth0", "h2.eth0", "ocs1.1"} <= apply.ports
    (tmp_path / "mine.yaml").write_text("topology: mine\nlinks: [h0.eth0 <-> h3.eth0]\n")
    (apply,) = read(HEAD + "  - apply: {topology: mine.yaml}\n").require().steps
    assert isinstance(apply, ApplyStep)
    assert list(map(str, apply.request.wanted.links)) == ["h0.eth0<->h3.eth0"]


def test_parameters_fill_their_places_with_their_type(read: Read) -> None:
    text = """playbook: p
parameters: {n: 2, within_s: 1.5, first: h0, rail: 1}
steps:
  - repeat: {times: "{{ n * (2 + 1) }}"}
    steps:
      - apply: {topology: pairs, hosts: "{{ first }},h3", rail: "{{ rail }}"}
      - wait: {for: ready, within_s: "{{ within_s }}"}
"""
    playbook = read(text, n="5", first="h1").require()
    assert playbook.parameters == {"n": 5, "within_s": 1.5, "first": "h1", "rail": 1}
    (repeat,) = playbook.steps
    assert isinstance(repeat, RepeatStep)
    assert repeat.times == 15
    assert list(map(str, repeat.steps)) == ["apply pairs hosts=h1,h3 rail=1", "wait until ready, 1.5 s at most"]
    text = "playbook: p\nparameters: {n: 1, live: true}\nsteps: [note: x]\n"
    assert read(text, live="false", n="7").require().parameters == {"n": 7, "live": False}


def test_playbook_without_a_testbed_is_checked_for_its_shape_only() -> None:
    playbook = load_playbook_text(HEAD + "  - apply: {topology: ring, groups: zz}\n", file="sent.yaml")
    assert [str(step) for step in playbook.steps] == ["apply ring groups=zz"]
    with pytest.raises(ConfigError, match=r"^sent\.yaml:3: steps\[0\]\.apply\.x: unknown key"):
        load_playbook_text(HEAD + "  - apply: {topology: ring, x: 1}\n", file="sent.yaml")


def forbidding(opus: Testbed, *, allowed: bool = True) -> tuple[Testbed, str]:
    """The rack with its first two ports on one switch forbidden, and those as a link."""
    ports = [str(port.id) for host in opus.hosts.values() for port in host.ports if port.rail == 0][:2]
    pair = frozenset(port.id for port in opus.ports() if str(port.id) in ports)
    rules = InterlockRules(
        overridable=frozenset({InterlockName.FORBIDDEN_PAIR} if allowed else ()), forbidden_ports={pair: "not these"}
    )
    return replace(opus, interlocks=rules), "<->".join(ports)


def test_what_would_be_refused_is_a_warning_at_its_step_and_the_playbook_can_be_used(read: Read, opus: Testbed) -> None:
    testbed, link = forbidding(opus)
    loaded = read(f"{HEAD}  - apply: {{links: {link}}}\n", testbed=testbed)
    (problem,) = loaded.problems
    assert (problem.line, problem.path, problem.warning) == (3, "steps[0].apply", True)
    assert problem.text.startswith(f"interlock forbidden-pair refused: {link}: ")
    assert loaded.value is not None


def test_an_override_is_part_of_the_request_where_the_testbed_allows_it_and_ends_the_warning(
    read: Read, opus: Testbed
) -> None:
    testbed, link = forbidding(opus)
    text = f"{HEAD}  - apply: {{links: {link}, override: {{forbidden-pair: in the dark}}}}\n"
    loaded = read(text, testbed=testbed)
    assert loaded.problems == ()
    (step,) = loaded.require().steps
    assert isinstance(step, ApplyStep)
    assert step.request.body.overrides == {InterlockName.FORBIDDEN_PAIR: "in the dark"}
    (problem,) = read(text, testbed=forbidding(opus, allowed=False)[0]).problems
    assert (problem.path, problem.warning) == ("steps[0].apply.override", False)
    assert "cannot be overridden: the testbed file does not allow it" in problem.text


# --- the page of the playbook language against the code that it tells of


PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "playbooks.md").read_text()


def row(of: str) -> str:
    return next(line for line in PAGE.splitlines() if line.startswith(f"| {of}"))


def test_every_kind_of_step_and_every_name_of_a_figure_is_told_and_the_example_is_a_playbook() -> None:
    assert [kind for kind in steps_reader.STEP_KINDS if f"| `{kind}: " not in PAGE] == []
    for name in MEASUREMENTS:
        scope, what, *figure = name.split(".")
        if figure:
            assert f"`{scope}.<stage>.<figure>`" in PAGE
            assert f"`{what}`" in row("`last.<stage>.<figure>`")
            assert f"`{figure[0]}`" in row("`last.<stage>.<figure>`")
        else:
            assert f"`{name}`" in PAGE
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert load_playbook_text(example, file="page.yaml").total_steps == 1 + 3 * (3 * 5 + 2)


LIMITS: dict[str, list[float]] = {
    "steps of a run": [playbook.STEPS_MAX],
    "steps that sweeps": [effort.WRITTEN_MAX],
    "characters that sweeps": [effort.CHARACTERS_MAX, effort.VALUE_CHARACTERS, effort.HOLE_CHARACTERS],
    "characters of a text": [expression.TEXT_LENGTH_MAX],
    "`times` of a repeat": [playbook_schema.REPEATS_MAX],
    "values of a variable": [playbook_schema.SWEPT_MAX],
    "branches of": [playbook_schema.BRANCHES_MAX],
    "files within files": [steps_reader.INCLUDE_DEPTH_MAX],
    "time of a run": [playbook_schema.RUN_MAX_S / 86_400],
    "`wait`": [playbook_schema.WAIT_MAX_S / 3600],
}


def test_limits_are_those_of_the_code() -> None:
    assert {of: [int(text) for text in re.findall(r"\d+", row(of).split(" | ")[1])] for of in LIMITS} == LIMITS
    assert f"At most {expression.LENGTH_MAX} characters, {expression.DEPTH_MAX} levels deep" in PAGE
    assert expression.MAGNITUDE_MAX == 1e12
    assert parameters.LIST_MAX == playbook_schema.SWEPT_MAX
    assert leaf_steps.NOTE_LENGTH_MAX == 2000


# ---


PARAMETERS: dict[str, Value] = {"n": 10, "s": 1.5, "host": "h0", "live": True, "sizes": (1, 4, 16)}


def test_an_unmeasured_value_is_an_error_with_its_name() -> None:
    expression = Expression.parse("n > 3 or last.turnaround.max_s < 2")
    assert expression.names == ("n", "last.turnaround.max_s")
    scope: dict[str, Value | None] = {"n": 10, "last.turnaround.max_s": None}
    assert expression.value(scope) is True
    with pytest.raises(UnknownError, match=r"last\.turnaround\.max_s is unknown"):
        expression.value(scope | {"n": 1})


def test_trying_out_looks_at_every_part_and_names_of_a_text_are_those_of_its_holes() -> None:
    assert Expression.parse("n / (n - 10) > 2").try_out(PARAMETERS) is False
    for text in ("live or host", "n if live else missing", "1 < 0 < host"):
        with pytest.raises(ConfigError):
            Expression.parse(text).try_out(PARAMETERS)
    assert names_in("ocs1:{{ first }}A..{{ first + n }}A {{ 1 + }}") == {"first", "n"}


@given(st.text(alphabet="ns01+-*/%<=!() .,'[]\x00\n_lambdaorndtifes:", max_size=60))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    try:
        value = Expression.parse(text).value(PARAMETERS)
    except ConfigError:
        return
    assert isinstance(value, str | int | float | bool | tuple)


@pytest.mark.parametrize(
    "text",
    ["{" * 40_000, "{{" * 400_000, "{{ n " * 100_000, "}" * 400_000, "{{ n }}" * 100_000, "{{ " + " " * 400_000 + "}}"],
)
def test_holes_of_a_hostile_text_are_refused_at_once(text: str) -> None:
    """Some braces more took seconds; the length is looked at before anything else."""
    started_s = time.process_time()
    with pytest.raises(ConfigError, match="is over the 10000 that one"):
        substitute(text, PARAMETERS)
    with pytest.raises(ConfigError, match="is over the 10000 that one"):
        fill_text(text, lambda expression: expression.value(PARAMETERS))
    assert names_in(text) == frozenset()
    assert time.process_time() - started_s < 0.5
