"""The agent and all that it imports, as a folder for a machine's PYTHONPATH: the installed files, compiled too."""

import shutil
import sys
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYTHON: Final = (3, 11)
"""Of the machines' Debian: what is compiled for another one does not run there."""
OURS: Final = {"hwd-agents": "hwd_agents", "hwd-drivers": "hwd_drivers"}


def missing_for_agent() -> str:
    """Why the agent cannot be taken into a machine; empty where it can."""
    if sys.version_info[:2] != PYTHON:
        return f"needs Python {PYTHON[0]}.{PYTHON[1]}, as the machines have: what is installed here is not for theirs"
    return ""


def pack_agent(folder: Path) -> Path:
    """Fill `folder`, and return it."""
    for one in _closure("hwd-agents", {}).values():
        name = one.metadata["Name"]
        _copy_metadata(one, folder)
        if name in OURS:
            spec = find_spec(OURS[name])
            assert spec is not None
            assert spec.submodule_search_locations
            shutil.copytree(spec.submodule_search_locations[0], folder / OURS[name])
        else:
            _copy_files(one, folder)
    return folder


def _closure(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    if name not in found:
        found[name] = distribution(name)
        for requirement in found[name].requires or ():
            wanted = Requirement(requirement)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                _closure(canonicalize_name(wanted.name), found)
    return found


def _copy_metadata(one: Distribution, folder: Path) -> None:
    """What importlib.metadata reads, entry points too."""
    for file in one.files or ():
        if ".dist-info/" in str(file) and "RECORD" not in str(file):
            _copy(Path(str(one.locate_file(file))), folder / str(file))


def _copy_files(one: Distribution, folder: Path) -> None:
    for file in one.files or ():
        if ".." not in file.parts and ".dist-info/" not in str(file):
            _copy(Path(str(one.locate_file(file))), folder / str(file))


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
