"""Playbooks as a client sends them: file and text, with all that they include."""

from collections.abc import Mapping
from pathlib import Path


def read_playbook(playbook: str | Path, parameters: Mapping[str, str]) -> tuple[str, str]:
    """Of a file, or of the name of one that hwd brings. Raises ConfigError with every problem that shows without a testbed."""
    from hwd.config.playbook.playbook import bundle_playbook
    from hwd.config.shipped import shipped

    path = Path(playbook)
    if not path.is_file() and "/" not in str(playbook):
        path = shipped("playbooks", str(playbook))
    return str(path.absolute()), bundle_playbook(path.absolute(), parameters)
