"""What `hwd plan` and `hwd apply` send for the words of WHAT."""

import pytest

from hwd.cli.commands.apply import wanted_of
from hwd.config import topologies
from hwd.config.shipped import names_of
from hwd_drivers.core.errors import ConfigError


def test_name_of_a_playbook_is_answered_with_the_command_for_it() -> None:
    with pytest.raises(ConfigError, match=r"^smoke: is a playbook, not a topology: run it with `hwd run smoke`$"):
        wanted_of(["smoke"])


def test_no_playbook_of_hwd_has_the_name_of_a_topology() -> None:
    assert {*topologies.names()}.isdisjoint(names_of("playbooks"))
