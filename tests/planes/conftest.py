"""The rotor of the examples, a plane of another package that keeps the rules; and one that does what it is told."""

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from hwd.model.plane import Action, Event, Job, Target, View

EXAMPLE = Path(__file__).parents[2] / "examples" / "rotor-plane"


@pytest.fixture(scope="session")
def rotor_plane() -> ModuleType:
    """The module of the example."""
    spec = importlib.util.spec_from_file_location("rotor_plane", EXAMPLE / "rotor_plane.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Scripted:
    """Answers each event with what the test says."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self.answers: list[Action] = []

    def targets(self, job: Job, view: View) -> Mapping[str, Target]:
        return self._targets

    def on(self, event: Event) -> Iterable[Action]:
        answers, self.answers = self.answers, []
        return answers
