"""`hwd schema` and what `hwd check` says of playbooks, from the shell."""

import json
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["testbed", "playbook", "document", "message"])
def test_schema_that_is_printed_is_the_one_of_the_docs(hwd, kind: str) -> None:  # type: ignore[no-untyped-def]
    said = hwd("schema", kind)
    assert said.status == 0
    assert said.out == (TREE / "docs" / "reference" / f"{kind}.schema.json").read_text()


def test_schema_of_nothing_is_bad_input(hwd) -> None:  # type: ignore[no-untyped-def]
    said = hwd("schema", "playbok")
    assert (said.status, said.out) == (2, "")
    assert "did you mean playbook?" in said.err


def test_check_takes_the_name_of_a_shipped_playbook(hwd) -> None:  # type: ignore[no-untyped-def]
    said = hwd("check", str(TREE / "examples" / "opus-testbed.yaml"), "soak", "--json")
    assert (said.status, json.loads(said.out)) == (0, [])
    said = hwd("check", str(TREE / "examples" / "two-hosts.yaml"), "opus-timeline", "--json")
    assert said.status == 2
    assert {(Path(one["file"]).name, one["line"]) for one in json.loads(said.out)} == {
        ("opus-timeline.yaml", line) for line in (13, 18, 21)
    }
