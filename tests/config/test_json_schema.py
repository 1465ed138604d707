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

from ..answers import Answer, check_answers

TREE = Path(__file__).parents[2]
FILES = [("testbed", path) for path in sorted((TREE / "examples").glob("*.yaml"))] + [
    ("playbook", path) for path in sorted((TREE / "playbooks").glob("*.yaml"))
]


def judge(kind: str, data: object) -> list[str]:
    """What is wrong, by the places: an independent validator's opinion. Of alternatives those within them too."""
    found: list[Any] = list(jsonschema.Draft202012Validator(json_schema(kind)).iter_errors(data))
    for error in found:
        found += error.context
    return sorted({"/" + "/".join(map(str, error.absolute_path)) for error in found})


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


def test_what_passes_and_what_does_not_by_its_places() -> None:
    head = "playbook: p\nsteps:\n"
    answers: dict[str, Answer] = {
        "steps": lambda text: judge("playbook", plain(f"{head}{text}\n")),
        "playbook": lambda text: judge("playbook", plain(f"{text}\n")),
        "testbed": lambda text: judge("testbed", plain(f"{text}\n")),
    }
    check_answers(Path(__file__).with_name("json_schema.txt"), answers)
