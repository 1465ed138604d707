"""The schemas for editors: as committed, and judged by `jsonschema` against every file that comes with hwd and against
broken ones.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from hwd.config.json_schema import SCHEMAS, json_schema
from hwd.config.yaml.tree import parse_tree, read_tree

TREE = Path(__file__).parents[2]
FILES = [("testbed", path) for path in sorted((TREE / "examples").glob("*.yaml"))] + [
    ("playbook", path) for path in sorted((TREE / "playbooks").glob("*.yaml"))
]


def judge(kind: str, data: object) -> list[str]:
    """What is wrong, by the places: an independent validator's opinion. Of alternatives those within them too."""
    found: list[Any] = list(jsonschema.Draft202012Validator(json_schema(kind)).iter_errors(data))
    for error in found:
        found += error.context
    return sorted({"/".join(map(str, error.absolute_path)) for error in found})


def plain(text: str) -> object:
    root = parse_tree(text.encode(), file="f.yaml").root
    assert root is not None
    return root.plain()


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schema_is_a_schema_and_the_committed_one(kind: str) -> None:
    schema = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    committed = TREE / "docs" / "reference" / f"{kind}.schema.json"
    assert json.loads(committed.read_text()) == schema, f"run: hwd schema {kind} > {committed.relative_to(TREE)}"


@pytest.mark.parametrize(("kind", "path"), FILES, ids=[path.name for _, path in FILES])
def test_every_shipped_file_passes(kind: str, path: Path) -> None:
    root = read_tree(path).root
    assert root is not None
    assert judge(kind, root.plain()) == []


HEAD = "playbook: p\nsteps:\n"
JOB = "testbed: t\njobs: {train: {command: [/usr/bin/true], user: lab, hosts: [h0], plane: static"
"""The begin of a testbed file; what follows closes two braces."""


@pytest.mark.parametrize(
    "steps",
    [
        "  - lease: {ports: all, for_s: 60}",
        '  - lease: {ports: [ocs1.3, h0.eth0], for_s: "{{ n * 60 }}"}',
        "  - apply: {topology: ring, groups: dp, rail: 0, hosts: [h0, h1], mode: safe}",
        '  - apply: {pairs: "ocs1:1A-2B", mode: "{{ mode }}", ready_within_s: 5}',
        "  - wait: {for: ready, within_s: 15}",
        "  - wait: {for_s: 0.5}",
        "  - repeat: {times: 3}\n    steps: [note: a, {repeat: {times: 2}, steps: [note: b]}]",
        "  - sweep: {pairs: [1, 4, 16], dwell_s: {from: 0, to: 5, step: 0.5}, names: '{{ names }}'}\n    steps: [note: "
        "a]",
        "  - parallel: {left: [note: a], right: [{wait: {for_s: 1}}]}",
        "  - host: {ports: all, set: {mtu: 4200, autoneg: off, fec: rs}}",
        "  - host: {ports: h0.eth0, set: {route: {to: 10.2.0.0/24, via: 10.1.0.254}}}",
        "  - fault: {switch: ocs1, fault: slow, seconds: 0.5}",
        "  - fault: {port: h0.eth0, fault: cut, strand: tx}",
        "  - fault: {fault: clear}",
        "  - assert: last.turnaround.max_s < 12",
        "  - include: {file: other.yaml, with: {n: 3, names: [a, b]}}",
    ],
)
def test_every_kind_of_step_passes(steps: str) -> None:
    assert judge("playbook", plain(HEAD + steps + "\n")) == []


@pytest.mark.parametrize(
    "keys",
    ["", ", groups: {dp: [0], tp: {ranks: [1, 0], dimension: tp}}", ", ranks_per_host: 2, within_s: 60, shim: go"],
)
def test_job_passes(keys: str) -> None:
    assert judge("testbed", plain(f"{JOB}{keys}}}}}\n")) == []


@pytest.mark.parametrize(
    ("kind", "text", "place"),
    [
        ("playbook", "playbook: 3 x\nsteps: [note: a]\n", "playbook"),
        ("playbook", "playbook: p\nsteps: []\n", "steps"),
        ("playbook", "playbook: p\nstep: []\nsteps: [note: a]\n", ""),
        ("playbook", "playbook: p\nsteps: [note: a]\nwithin_s: -1\n", "within_s"),
        ("playbook", "playbook: p\nsteps: [note: a]\nreport: {by: [stag]}\n", "report/by/0"),
        ("playbook", HEAD + "  - aply: {topology: ring}\n", "steps/0"),
        ("playbook", HEAD + "  - wait: {for: light, within_s: 3}\n", "steps/0"),
        ("playbook", HEAD + "  - wait: {for_s: -1}\n", "steps/0"),
        ("playbook", HEAD + "  - apply: {topology: ring, mode: fast}\n", "steps/0"),
        ("playbook", HEAD + "  - host: {ports: all, set: {mtu: huge}}\n", "steps/0"),
        ("playbook", HEAD + "  - fault: {switch: ocs1, fault: slow}\n", "steps/0"),
        ("playbook", HEAD + "  - repeat: {times: 0}\n    steps: [note: a]\n", "steps/0"),
        ("playbook", HEAD + "  - parallel: {only: [note: a]}\n", "steps/0"),
        ("testbed", "testbed: t\nhost: {}\n", ""),
        ("testbed", "testbed: t\nhosts: {h0: {nics: {eth0: {ip: 10.0.0.1/32}}}}\n", "hosts/h0/nics/eth0"),
        ("testbed", "testbed: t\nfibres: [{from: a}]\n", "fibres/0"),
        ("testbed", "testbed: t\nports: {ocs1.3: {state: broken}}\n", "ports/ocs1.3/state"),
        ("testbed", "testbed: t\npassives: {p: {kind: prism, loss_db: 1}}\n", "passives/p/kind"),
        ("testbed", f"{JOB}, groups: {{dp: [-1]}}}}}}\n", "jobs/train/groups/dp/0"),
        ("testbed", f"{JOB}, ranks_per_host: many}}}}\n", "jobs/train/ranks_per_host"),
    ],
)
def test_what_is_broken_does_not_pass(kind: str, text: str, place: str) -> None:
    assert place in judge(kind, plain(text))
