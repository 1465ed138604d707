"""`hwd schema` and what `hwd check` says of playbooks, from the shell."""

from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["testbed", "playbook", "document", "message"])
def test_schema_that_is_printed_is_the_one_of_the_docs(hwd, kind: str) -> None:  # type: ignore[no-untyped-def]
    said = hwd("schema", kind)
    assert said.status == 0
    assert said.out == (TREE / "docs" / "reference" / f"{kind}.schema.json").read_text()
