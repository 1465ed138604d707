"""Playbooks: steps and parameters become values; an apply that an interlock would refuse, and its override."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hwd.config.playbook.playbook import (
    ApplyStep,
    LeaseStep,
    LoadedPlaybook,
    RepeatStep,
    WaitStep,
    load_playbook,
    load_playbook_text,
)
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
    assert loaded.playbook is not None


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
