"""Agent, or daemon, and all it imports, as a folder for a machine's PYTHONPATH: the installed files, compiled too."""

import shutil
import sys
from collections.abc import Collection
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYTHON: Final = (3, 11)
"""Of the machines' Debian: what is compiled for another one does not run there."""
OURS: Final = {"hwd-agents": "hwd_agents", "hwd-drivers": "hwd_drivers", "hwd-daemon": "hwd"}
FIGURES: Final = ("vl-convert-python", "altair", "narwhals", "jsonschema", "pypdf")
"""What only reports import: more than all else together."""


def missing_for_agent() -> str:
    """Why agent and daemon cannot be taken into a machine; empty where they can."""
    if sys.version_info[:2] != PYTHON:
        return f"needs Python {PYTHON[0]}.{PYTHON[1]}, as the machines have: what is installed here is not for theirs"
    return ""


def pack_agent(folder: Path) -> Path:
    """Fill `folder`, and return it."""
    return _pack("hwd-agents", folder)


def pack_daemon(folder: Path) -> Path:
    """Fill `folder` with what the daemon and its command line import, but for reports, and return it."""
    return _pack("hwd-daemon", folder, without=FIGURES)


def _pack(name: str, folder: Path, *, without: Collection[str] = ()) -> Path:
    for one in _closure(name, {}, without).values():
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


def _closure(name: str, found: dict[str, Distribution], without: Collection[str]) -> dict[str, Distribution]:
    if name not in found and name not in without:
        found[name] = distribution(name)
        for requirement in found[name].requires or ():
            wanted = Requirement(requirement)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                _closure(canonicalize_name(wanted.name), found, without)
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
