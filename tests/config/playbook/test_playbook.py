from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.config.playbook.playbook import (
    ApplyStep,
    LeaseStep,
    LoadedPlaybook,
    RepeatStep,
    WaitStep,
    load_playbook,
    load_playbook_text,
)
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.switching.moves import ApplyMode

PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
HEAD = "playbook: p\nsteps:\n"

Read = Callable[..., LoadedPlaybook]


@pytest.fixture
def read(tmp_path: Path, opus: Testbed) -> Read:
    def read(text: str, **overrides: str) -> LoadedPlaybook:
        path = tmp_path / "p.yaml"
        path.write_text(text)
        return load_playbook(path, overrides, testbed=opus)

    return read


def said(loaded: LoadedPlaybook) -> list[str]:
    return [str(problem).partition("p.yaml:")[2] for problem in loaded.problems]


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


@pytest.mark.parametrize(
    "what",
    [
        "links: [h0.eth0 <-> h2.eth0, h1.eth1<->h3.eth1]",
        "links: 'h0.eth0 <-> h2.eth0, h1.eth1<->h3.eth1'",
        "topology: 'h0.eth0<->h2.eth0 h1.eth1<->h3.eth1'",
    ],
)
def test_links_are_applied_by_their_nic_ports(read: Read, what: str) -> None:
    (apply, _) = read(HEAD + f"\n  - apply: {{{what}, ready_within_s: 5}}\n").require().steps
    assert isinstance(apply, ApplyStep)
    assert list(map(str, apply.request.wanted.links)) == ["h0.eth0<->h2.eth0", "h1.eth1<->h3.eth1"]
    assert {"h0.eth0", "h2.eth0", "ocs1.1"} <= apply.ports


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


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ("  - aply: {topology: ring}", "3: steps[0].aply: no such step; did you mean apply?"),
        (
            "  - 5",
            "3: steps[0]: a step is one of lease, apply, wait, repeat, sweep, parallel, note, host, fault, job, "
            "assert, include, such as `wait: {for: ready, within_s: 15}`",
        ),
        (
            "  - lease: {ports: all, for_s: 5}\n    wait: {for: ready, within_s: 1}",
            "3: steps[0]: lease and wait in one step; begin each with a dash",
        ),
        ("  - lease: {ports: all}", "3: steps[0].lease.for_s: is missing"),
        (
            "  - lease: {ports: all, for_s: 1e9}",
            "3: steps[0].lease.for_s: must be less than or equal to 604800, not 1000000000.0",
        ),
        (
            "  - lease: {ports: [ocs1.99], for_s: 5}",
            "3: steps[0].lease.ports: ocs1.99: no such port (write ocs1.3, h0.eth0, or all); did you mean ocs1.9?",
        ),
        (
            "  - apply: {topology: rin}",
            "3: steps[0].apply.topology: 'rin' is no topology, no file (.yaml) and no links (h0.eth0 <-> h2.eth0); did "
            "you mean ring?",
        ),
        (
            "  - apply: {topology: rnig, hosts: [h0, h1], groups: dp}",
            "3: steps[0].apply.topology: 'rnig' is no topology, no file (.yaml) and no links (h0.eth0 <-> h2.eth0); "
            "did you mean ring?",
        ),
        (
            "  - apply: {links: [h0.eth0 <-> h2.eth9]}",
            "3: steps[0].apply: h0.eth0<->h2.eth9: no NIC port h2.eth9 in testbed opus-testbed; did you mean h2.eth3?",
        ),
        (
            "  - apply: {links: h0.eth0}",
            "3: steps[0].apply.links: 'h0.eth0' is no link; write h0.eth0 <-> h2.eth0, or a list of them",
        ),
        ("  - apply: {topology: ring, rial: 0}", "3: steps[0].apply.rial: unknown key; did you mean rail?"),
        (
            "  - apply: {topology: ring, groups: tp}",
            "3: steps[0].apply: groups=tp: none of the hosts has a group tp; they have dp0, dp1, pp0, pp1",
        ),
        ("  - apply: {mode: safe}", "3: steps[0].apply: needs exactly one of topology, links and pairs"),
        (
            "  - apply: {pairs: 'ocs1:1A-2A'}",
            "3: steps[0].apply: crossconnect 1A-2A: one end must be on side A and the other on side B",
        ),
        (
            "  - apply: {topology: ring, mode: fast}",
            "3: steps[0].apply.mode: must be 'safe', 'update' or 'overwrite', not 'fast'",
        ),
        ("  - wait: {for: light, within_s: 5}", "3: steps[0].wait.for: must be 'ready', not 'light'"),
        ("  - wait: {for: ready, within_s: -1}", "3: steps[0].wait.within_s: must be greater than 0, not -1"),
        ("  - repeat: {times: 3}", "3: steps[0].steps: a repeat also needs `steps:`, with a list of them"),
        (
            "  - repeat: {times: 0}\n    steps: [wait: {for: ready, within_s: 1}]",
            "3: steps[0].repeat.times: must be greater than or equal to 1, not 0",
        ),
        (
            "  - repeat: {times: 2}\n    step: []\n    steps: [wait: {for: ready, within_s: 1}]",
            "4: steps[0].step: unknown key; a step repeat has `steps` in addition",
        ),
        (
            '  - repeat: {times: "{{ n }}"}\n    steps: [wait: {for: ready, within_s: 1}]',
            "3: steps[0].repeat.times: 'n': no parameter 'n'; there is none",
        ),
        (
            "  - apply: {topology: none.yaml}",
            "3: steps[0].apply.topology: none.yaml: cannot be read: No such file or directory",
        ),
    ],
)
def test_problem_is_told_with_its_place(read: Read, steps: str, problem: str) -> None:
    loaded = read(HEAD + steps + "\n")
    assert loaded.playbook is None
    assert any(text.startswith(problem) for text in said(loaded)), said(loaded)


def test_every_problem_comes_at_once(read: Read) -> None:
    loaded = read("playbook: p\nshow: x\nsteps:\n  - wait: {for: ready}\n  - aply: {}\nreport: {by: [stag]}\n")
    assert said(loaded) == [
        "2: show: unknown key; did you mean shows?",
        "4: steps[0].wait.within_s: is missing",
        "5: steps[1].aply: no such step; did you mean apply?",
        "6: report.by[0]: must be 'topology', 'stage', 'link', 'sweep', 'run' or 'testbed', not 'stag'",
    ]


def test_override_must_name_a_parameter_and_have_its_type(read: Read) -> None:
    text = "playbook: p\nparameters: {n: 1, live: true}\nsteps: [wait: {for: ready, within_s: 1}]\n"
    assert said(read(text, m="1")) == ["2: parameters: -D m=1: no such parameter; known: live, n"]
    assert said(read(text, n="1.5")) == ["2: parameters.n: -D n=1.5: must be a whole number, as its default 1 is"]
    assert said(read(text, live="maybe")) == [
        "2: parameters.live: -D live=maybe: must be true or false, as its default true is"
    ]
    assert read(text, live="false", n="7").require().parameters == {"n": 7, "live": False}


def test_repeats_within_repeats_end_at_the_limit(read: Read) -> None:
    text = HEAD + "".join(f"{'    ' * n}  - repeat: {{times: 1000}}\n{'    ' * n}    steps:\n" for n in range(3))
    loaded = read(text + "              - wait: {for: ready, within_s: 1}\n")
    assert said(loaded) == [
        "2: steps: 1000000000 steps with all repeats are over the 100000 of one run; repeat less, or make several runs"
    ]


def test_topology_file_is_looked_for_beside_the_playbook(read: Read, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("topology: mine\nlinks: [h0.eth0 <-> h3.eth0]\n")
    (apply,) = read(HEAD + "  - apply: {topology: mine.yaml}\n").require().steps
    assert isinstance(apply, ApplyStep)
    assert list(map(str, apply.request.wanted.links)) == ["h0.eth0<->h3.eth0"]


def test_playbook_without_a_testbed_is_checked_for_its_shape_only() -> None:
    playbook = load_playbook_text(HEAD + "  - apply: {topology: ring, groups: zz}\n", file="sent.yaml")
    assert [str(step) for step in playbook.steps] == ["apply ring groups=zz"]
    with pytest.raises(ConfigError, match=r"^sent\.yaml:3: steps\[0\]\.apply\.x: unknown key"):
        load_playbook_text(HEAD + "  - apply: {topology: ring, x: 1}\n", file="sent.yaml")


KEYS = st.sampled_from(
    [
        "playbook",
        "steps",
        "parameters",
        "report",
        "lease",
        "apply",
        "wait",
        "repeat",
        "times",
        "topology",
        "pairs",
        "ports",
        "for_s",
        "for",
        "within_s",
        "by",
        "n",
        "hosts",
        "sweep",
        "parallel",
        "note",
        "host",
        "fault",
        "assert",
        "include",
        "set",
        "file",
        "with",
        "from",
        "to",
        "step",
        "switch",
        "mtu",
        "last.links",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        [
            "ring",
            "all",
            "ready",
            "ocs1:1A-2B",
            "{{ n }}",
            "{{ n + 1 }}",
            "{{",
            "h0",
            "n > last.links",
            "slow",
            "p.yaml",
            "ocs1",
        ]
    )
    | st.text()
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=25
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.dictionaries(KEYS, TREES, max_size=3), max_size=4), more=st.dictionaries(KEYS, TREES, max_size=4)
)
def test_any_tree_of_our_keys_gives_problems_and_no_traceback(
    read: Read, steps: object, more: dict[str, object]
) -> None:
    read(yaml.safe_dump({"playbook": "p", "parameters": {"n": 2}, "steps": steps} | more))
