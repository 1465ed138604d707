"""Reads a playbook for sending: its path, and its text with everything that it includes."""

from collections.abc import Mapping
from pathlib import Path


def read_playbook(playbook: str | Path, parameters: Mapping[str, str]) -> tuple[str, str]:
    """Path and text of a playbook file, or of a playbook that is part of hwd, by name.

    Raises ConfigError with every problem that can be found without a testbed.
    """
    from hwd.config.playbook.playbook import bundle_playbook
    from hwd.config.shipped_file import shipped_file

    path = Path(playbook)
    if not path.is_file() and "/" not in str(playbook):
        path = shipped_file("playbooks", str(playbook))
    return str(path.absolute()), bundle_playbook(path.absolute(), parameters)
