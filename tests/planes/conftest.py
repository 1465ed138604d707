"""The rotor of the examples: a plane of another package, that keeps the rules."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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
