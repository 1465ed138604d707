"""Playbooks made from text, read for the testbed of the Opus paper."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.config.playbook.playbook import LoadedPlaybook, load_playbook
from hwd.model.testbed import Testbed


@pytest.fixture
def read(tmp_path: Path, opus: Testbed) -> Callable[..., LoadedPlaybook]:
    def read(text: str, *, testbed: Testbed = opus, **overrides: str) -> LoadedPlaybook:
        path = tmp_path / "p.yaml"
        path.write_text(text)
        return load_playbook(path, overrides, testbed=testbed)

    return read
