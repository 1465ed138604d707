"""Sweeps, branches, includes, host actions, faults, notes and asserts: what is read, and what is refused before
anything moves.
"""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.config.playbook.playbook import LoadedPlaybook, bundle_playbook, load_playbook, load_playbook_text
from hwd.config.playbook.playbook_files import bundled
from hwd.config.playbook.steps import (
    ApplyStep,
    AssertStep,
    DwellStep,
    FaultStep,
    HostStep,
    NoteStep,
    ParallelStep,
    RepeatStep,
    SweepStep,
)
from hwd.config.yaml.tree import FILE_BYTES_MAX
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError

HEAD = "playbook: p\nparameters: {n: 3, names: [a, b], limit_s: 2.5}\nsteps:\n"

Read = Callable[..., LoadedPlaybook]


def one(read: Read, step: str, **overrides: str) -> object:
    return read(HEAD + step + "\n", **overrides).require().steps[0]


# --- sweeps


def test_sweep_writes_out_every_combination_the_first_slowest(read: Read) -> None:
    sweep = one(
        read,
        '  - sweep: {n1: [1, 4], kind: "{{ names }}"}\n    steps:\n      - apply: {pairs: "ocs1:{{ 16 + n1 }}A-{{ 20 + '
        'n1 }}B"}\n      - note: "{{ kind }}"',
    )
    assert isinstance(sweep, SweepStep)
    assert [dict(round.values) for round in sweep.rounds] == [
        {"n1": 1, "kind": "a"},
        {"n1": 1, "kind": "b"},
        {"n1": 4, "kind": "a"},
        {"n1": 4, "kind": "b"},
    ]
    assert [str(step) for step in sweep.rounds[2].steps] == ["apply ocs1:20A-24B", "note a"]
    assert str(sweep) == "sweep n1, kind over 4 rounds"
    assert read(HEAD + "  - sweep: {x: [1, 2, 3]}\n    steps: [repeat: {times: 2}, note: a]\n").value is None


RANGES: dict[str, tuple[object, ...]] = {
    "{from: 1, to: 3}": (1, 2, 3),
    "{from: 0, to: 1, step: 0.25}": (0, 0.25, 0.5, 0.75, 1.0),
    "{from: 0.1, to: 0.3, step: 0.1}": (0.1, 0.2, 0.3),
    "{from: 4, to: 1, step: -1.5}": (4, 2.5, 1.0),
    '{from: 1, to: "{{ n }}"}': (1, 2, 3),
    "[on, 1.5, true, x]": ("on", 1.5, True, "x"),
}


def test_range_has_both_ends_and_a_list_parameter_is_replaced_by_a_list(read: Read) -> None:
    for written, values in RANGES.items():
        sweep = one(read, f"  - sweep: {{v: {written}}}\n    steps: [note: x]")
        assert isinstance(sweep, SweepStep)
        assert tuple(round.values["v"] for round in sweep.rounds) == values
    text = '  - sweep: {v: "{{ names }}"}\n    steps: [note: "{{ v }}"]'
    sweep = one(read, text, names="x, y,z")
    assert isinstance(sweep, SweepStep)
    assert [str(round.steps[0]) for round in sweep.rounds] == ["note x", "note y", "note z"]


def test_steps_of_sweeps_and_repeats_are_counted_and_a_run_may_wait_as_long_as_it_may_take(read: Read) -> None:
    sweep = "sweep: {a: [1, 2, 3], b: [1, 2]}\n        steps: [wait: {for_s: 1}, note: x]"
    assert read(f"{HEAD}  - repeat: {{times: 10}}\n    steps:\n      - {sweep}\n").require().total_steps == 10 * 6 * 2
    assert read(f"{HEAD}  - repeat: {{times: 100}}\n    steps: [wait: {{for_s: 3600}}]\n").value is not None
    host, branches = (
        "host: {ports: all, set: {mtu: 4200}}",
        "{a: [lease: {ports: all, for_s: 1}], b: [fault: {fault: clear}]}",
    )
    playbook = load_playbook_text(f"{HEAD}  - {host}\n  - parallel: {branches}\n", file="sent.yaml")
    assert (playbook.total_steps, playbook.ports) == (3, frozenset()), "without a testbed, by its shape"


# --- branches


def test_branches_claim_ports_of_their_own(read: Read) -> None:
    loaded = read(
        HEAD
        + """\
  - parallel:
      left:
        - lease: {ports: [ocs1.1, ocs1.5], for_s: 60}
        - apply: {pairs: "ocs1:1A-5B,5A-1B", ready_within_s: 9}
      right:
        - apply: {topology: pairs, hosts: [h2, h3], rail: 0}
        - host: {ports: h2.eth0, set: {mtu: 4200}}
"""
    )
    playbook = loaded.require()
    (parallel,) = playbook.steps
    assert isinstance(parallel, ParallelStep)
    assert [branch.name for branch in parallel.branches] == ["left", "right"]
    assert {"ocs1.1", "ocs1.5", "h0.eth0", "h1.eth0", "h2.eth0", "h3.eth0", "ocs1.9", "ocs1.13"} <= playbook.ports
    assert "ocs1.2" not in playbook.ports


# --- includes


def test_included_steps_have_their_own_parameters(read: Read, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "warm.yaml").write_text(
        "playbook: warm\nparameters: {n: 7, word: hi}\nsteps:\n  - repeat: {times: '{{ n }}'}\n    steps: [note: '{{ "
        "word }}']\n  - include: {file: inner.yaml}\n  - apply: {topology: rings.yaml}\n"
    )
    (tmp_path / "parts" / "inner.yaml").write_text("playbook: inner\nsteps: [wait: {for_s: 1}]\n")
    (tmp_path / "parts" / "rings.yaml").write_text("topology: mine\nlinks: [h0.eth0 <-> h3.eth0]\n")
    text = HEAD + '  - include: {file: parts/warm.yaml, with: {n: "{{ n }}", word: x}}\n'
    repeat, dwell, apply = read(text).require().steps
    assert isinstance(repeat, RepeatStep)
    assert isinstance(apply, ApplyStep)
    assert (repeat.times, str(repeat.steps[0]), dwell) == (3, "note x", DwellStep(for_s=1))
    assert list(map(str, apply.request.wanted.links)) == ["h0.eth0<->h3.eth0"]


def test_bundled_playbook_stands_by_itself(read: Read, tmp_path: Path, opus: Testbed) -> None:
    (tmp_path / "inner.yaml").write_text(
        "playbook: i\nshows: 'a \u2028 b \x85 \" \\ \t'\nsteps: [apply: {topology: rings.yaml}]\n"
    )
    (tmp_path / "rings.yaml").write_text("topology: mine\nlinks: [h0.eth0 <-> h3.eth0]\n")
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + "  - include: {file: inner.yaml}\n  - include: {file: inner.yaml}")
    text = bundle_playbook(path)
    assert text.startswith(path.read_text())
    elsewhere = load_playbook_text(text, file="/nowhere/p.yaml", testbed=opus)
    assert elsewhere.steps == load_playbook(path, testbed=opus).require().steps
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "p.yaml").write_text(text)
    assert bundle_playbook(kept / "p.yaml") == text
    assert load_playbook(kept / "p.yaml", testbed=opus).require().steps == elsewhere.steps
    with pytest.raises(ConfigError, match=r"^/nowhere/p\.yaml:4: .*inner\.yaml: was not sent along"):
        load_playbook_text(path.read_text(), file="/nowhere/p.yaml", testbed=opus)


def test_bundle_leaves_problems_to_the_reader_but_needs_every_file_and_a_place_for_them(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    (tmp_path / "i.yaml").write_text("playbook: i\nsteps: [aply: {}]\n")
    path.write_text(HEAD + "  - include: {file: i.yaml}\n  - nte: x\n")
    with pytest.raises(ConfigError, match=r"p\.yaml:5: .*no such step[^\0]*i\.yaml:2: .*no such step"):
        load_playbook_text(bundle_playbook(path), file="p.yaml")
    path.write_text(HEAD + "  - include: {file: j.yaml}\n  - nte: x\n")
    with pytest.raises(ConfigError, match=r"p\.yaml:4: .*j\.yaml: cannot be read[^\0]*p\.yaml:5: "):
        bundle_playbook(path)
    with pytest.raises(ConfigError, match=r"p2\.yaml:1: cannot be read: No such file"):
        bundle_playbook(tmp_path / "p2.yaml")
    (tmp_path / "i.yaml").write_text("playbook: i\nsteps: [note: x]\n")
    path = tmp_path / "p.yaml"
    path.write_text("{playbook: p, steps: [{include: {file: i.yaml}}]}\n")
    with pytest.raises(ConfigError, match="one key a line"):
        bundle_playbook(path)


def test_problems_of_an_included_file_have_its_lines(read: Read, tmp_path: Path) -> None:
    (tmp_path / "i.yaml").write_text(
        "playbook: i\nparameters: {k: 1}\nsteps:\n  - aply: {}\n  - wait: {for: ready, within_s: '{{ k }}'}\n"
    )
    loaded = read(
        HEAD + "  - include: {file: i.yaml, with: {k: soon, j: 2}}\n  - include: {file: i.yaml, with: {k: -1}}\n"
    )
    assert [text.replace(str(tmp_path) + "/", "") for text in map(str, loaded.problems)] == [
        "p.yaml:4: steps[0].include.with.j: i.yaml: j: no such parameter; known: k",
        "p.yaml:4: steps[0].include.with.k: i.yaml: k: must be a whole number, as its default 1 is",
        "i.yaml:4: steps[0].aply: no such step; did you mean apply? (included in p.yaml:4)",
        "i.yaml:4: steps[0].aply: no such step; did you mean apply? (included in p.yaml:5)",
        "i.yaml:5: steps[1].wait.within_s: must be greater than 0, not -1 (included in p.yaml:5)",
    ]


def test_included_files_are_those_of_the_playbooks_folder(read: Read, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("playbook: a\nsteps: [note: x]\n")
    below = tmp_path / "lab" / "parts"
    below.mkdir(parents=True)
    (below / "a.yaml").write_text("playbook: a\nsteps: [include: {file: ../b.yaml}]\n")
    (below.parent / "b.yaml").write_text("playbook: b\nsteps: [note: x]\n")
    (below / "inner.yaml").symlink_to("../b.yaml")
    (below / "outer.yaml").symlink_to(tmp_path / "secret.yaml")
    os.mkfifo(below / "fifo.yaml")
    (below / "zeros.yaml").symlink_to("/dev/zero")
    (below / "long.yaml").write_bytes(b"x" * (FILE_BYTES_MAX + 1))

    def why(file: str) -> str:
        path = below.parent / "p.yaml"
        path.write_text(HEAD + f"  - include: {{file: {file}}}\n")
        loaded = load_playbook(path)
        assert (loaded.value is None) == bool(loaded.problems)
        return " ".join(problem.text for problem in loaded.problems)

    out = "leads out of the folder of the playbook; put the file there, or below"
    assert [why("parts/a.yaml"), why("parts/inner.yaml")] == ["", ""]
    for file in ("../secret.yaml", "parts/../../secret.yaml", "../../../../../../etc/passwd", ".."):
        assert why(file) == f"{file}: {out}"
    for file in ("parts/outer.yaml", "parts/zeros.yaml"):
        assert why(file) == f"{file}: is a link; {out}"
    assert why("parts/fifo.yaml") == "parts/fifo.yaml: is no regular file, but a FIFO"
    assert why("parts") == "parts: cannot be read: Is a directory"
    assert why("parts/long.yaml") == "parts/long.yaml: is over the 4000000 bytes allowed for such a file"
    [problem] = load_playbook("/dev/zero").problems
    assert problem.text == "is no regular file, but a device"


# --- host, fault, note, assert


def test_host_fault_note_and_assert_become_values(read: Read) -> None:
    host, fault, note, check = (
        read(
            HEAD
            + """\
  - host: {ports: [h0.eth0, h1.eth0], set: {mtu: "{{ 4000 + n }}", autoneg: off}}
  - fault: {switch: ocs1, fault: slow, seconds: "{{ limit_s }}"}
  - note: "{{ n }} of {{ names }}: {{ run.turnaround.max_s + n }} s"
  - assert: last.ready == last.links and last.turnaround.max_s < limit_s
"""
        )
        .require()
        .steps
    )
    assert isinstance(host, HostStep)
    assert list(map(str, host.actions)) == [
        "h0.eth0 mtu 4003",
        "h0.eth0 autoneg off",
        "h1.eth0 mtu 4003",
        "h1.eth0 autoneg off",
    ]
    assert str(host) == "host h0.eth0, h1.eth0: mtu 4003, autoneg off"
    assert isinstance(fault, FaultStep)
    assert str(fault) == "fault ocs1 slow seconds=2.5"
    assert note == NoteStep(text="3 of a,b: {{ run.turnaround.max_s + n }} s", scope={"n": 3})
    assert isinstance(check, AssertStep)
    assert check.scope == {"limit_s": 2.5}


LONG = "x" * 9_999
WITH_HOLES = [f"k{n}: 'y{{{{a}}}}'" for n in range(9_000)]
LITTLE_BYTES = 40_000_000
"""More than the tree of a megabyte, and less than what any of the texts below would come to."""


TOO_LONG = {
    f"parameters: {{a: {LONG}}}\nsteps:\n  - apply: {{pairs: '{'{{a}}' * 1900}'}}\n": (
        "{{a}}: puts over 10000 characters into one text"
    ),
    f"parameters: {{a: {LONG}xx}}\nsteps: [note: x]\n": (
        "text of 10001 characters is over the 10000 allowed for a value"
    ),
    f"steps:\n  - apply: {{pairs: '{'{{ 1 }}' * 2000}'}}\n": (
        "text of 14000 characters is over the 10000 that one with {{ }} may have"
    ),
    f"parameters: {{a: {LONG}}}\nsteps:\n  - fault: {{{', '.join(WITH_HOLES)}}}\n": (
        "over 10000000 characters with all sweeps"
    ),
}


def test_text_writes_out_no_more_than_fits_the_memory(opus: Testbed) -> None:
    for text, problem in TOO_LONG.items():
        tracemalloc.start()
        try:
            with pytest.raises(ConfigError) as refused:
                load_playbook_text(f"playbook: p\n{text}", file="p.yaml", testbed=opus)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert problem in str(refused.value)
        assert peak_bytes < LITTLE_BYTES


def test_rounds_of_a_sweep_are_counted_by_what_stands_in_them_and_an_included_file_each_time(
    read: Read, opus: Testbed
) -> None:
    rounds = "  - sweep: {i: {from: 1, to: 1000}, j: [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n    steps:\n"
    for step in (
        f"apply: {{pairs: '{'{{i}}' * 1900}'}}",
        f"note: '{'{{i}}' * 390}'",
        f"fault: {{a: '{{{{i}}}}', x: [{'1,' * 4000}1]}}",
    ):
        said = [problem.text for problem in read(f"{HEAD}{rounds}      - {step}\n").problems]
        assert [text for text in said if text.startswith("over 10000000 characters with all sweeps")]
    inner = f"playbook: a\nsteps: [note: x]\nreport: {{by: [{'link, ' * 4000}link]}}\n"
    text = bundled("playbook: p\nsteps:\n" + "  - include: {file: a.yaml}\n" * 500, {"a.yaml": inner}, file="p.yaml")
    with pytest.raises(ConfigError, match="over 10000000 characters with all sweeps"):
        load_playbook_text(text, file="p.yaml", testbed=opus)
