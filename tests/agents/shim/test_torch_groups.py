"""Which group of a job a process group of PyTorch is, and its way, without PyTorch."""

from typing import Any

import pytest

from hwd_agents.pytorch import GroupOptions
from hwd_agents.pytorch.group_choice import GroupChoice
from hwd_agents.wire import RankPlace
from hwd_drivers.core.errors import ConfigError

PLACES = [
    RankPlace(host="h0", gpu=0, optical={"eth0": "10.1.0.1"}, electrical={"eth2": "10.5.0.1"}),
    RankPlace(host="h0", gpu=1, optical={"eth1": "10.1.1.1"}, electrical={"eth2": "10.5.0.1"}),
    RankPlace(host="h1", gpu=0, electrical={"eth2": "10.5.0.2"}),
    RankPlace(host="h1", gpu=1),
]
GROUPS = {"world": (0, 1, 2, 3), "dp0": (0, 2), "dp1": (1, 3), "tp0": (0, 1), "cp0": (1, 0)}


def choice(number: int, *ranks: int, **options: Any) -> GroupChoice:
    return GroupChoice(ranks, GroupOptions(**options), job="j1", number=number, places=PLACES, groups=GROUPS)


def test_group_is_that_of_the_same_ranks_over_the_first_port_with_light() -> None:
    found = choice(0, 0, 2)
    assert (found.name("1", "undefined"), found.any_name, found.port) == ("dp0", "dp0", "eth0")
    assert choice(2, 0, 2).port == "eth2", "without light it sends over packet switches"


@pytest.mark.parametrize("described", ["mesh_tp", "tp0", "mesh_tp0"])
def test_dimension_of_its_mesh_tells_which_of_several_it_is(described: str) -> None:
    found = choice(1, 0, 1)
    assert found.any_name in ("tp0", "cp0")
    assert (found.name("2", described), found.any_name) == ("tp0", "tp0")


def test_program_says_which_of_several_it_is() -> None:
    assert choice(0, 0, 1, group="cp0").name("2", "undefined") == "cp0"
    with pytest.raises(ConfigError, match=r"group 2 \(default_pg\): tp0, cp0 of job j1 all have its ranks"):
        choice(0, 0, 1).name("2", "default_pg")
    with pytest.raises(ConfigError, match="'dp0' is no group of ranks 0, 1: job j1 has tp0, cp0 of these ranks"):
        choice(0, 0, 1, group="dp0")


def test_group_that_the_job_does_not_have_takes_no_way_silently() -> None:
    found = choice(1, 1, 2)
    assert (found.has_way, found.port, found.any_name) == (False, "", "")
    with pytest.raises(ConfigError, match=r"group 3: job j1 has no group of ranks 1, 2; it has world \(0, 1, 2, 3\)"):
        found.name("3", "undefined")


def test_packet_switches_may_be_its_way_and_then_nothing_is_announced() -> None:
    for ranks in ((0, 2), (1, 2)):
        found = choice(ranks[0], *ranks, over="electrical")
        assert (found.name("4", "undefined"), found.port) == ("", "eth2")


def test_ranks_of_one_host_go_over_loopback() -> None:
    assert choice(0, 0, 1).port == "lo"
    found = choice(3, 2, 3)
    assert (found.name("5", "undefined"), found.port) == ("", "lo"), "it needs no address"
    with pytest.raises(ConfigError, match="rank 3 of job j1: has no address to send from"):
        choice(3, 1, 3)
