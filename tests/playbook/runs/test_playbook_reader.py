"""Playbooks that take long to read."""

import asyncio
from pathlib import Path

import pytest

from hwd.config.playbook.playbook import ApplyStep, SweepStep, load_playbook_text
from hwd.daemon.installed_drivers import load
from hwd.model.answers import DemandMatrix
from hwd.model.demand import DemandKey
from hwd.model.testbed import Testbed
from hwd.playbook.playbook_reader import PlaybookReader
from hwd_drivers.core.errors import ConfigError, UnknownError
from hwd_drivers.core.offload import InlineOffload, ThreadOffload

from .conftest import TESTBED

LONG = f"""\
playbook: long
steps:
  - sweep: {{i: {{from: 1, to: 100}}}}
    steps:
      - note: '{"{{i}}" * 390}'
"""


DEMAND = """\
playbook: two-layers
shows: nothing
steps:
  - sweep: {layer: [0, 1, 0]}
    steps:
      - apply: {topology: matching, demand: moe, layer: "{{ layer }}"}
"""


async def no_demand(key: DemandKey) -> DemandMatrix:
    raise UnknownError(f"{key}: not stored")


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    (tmp_path / "two.yaml").write_text(TESTBED)
    return load(tmp_path / "two.yaml").require()


async def test_loop_turns_while_a_playbook_is_read(testbed: Testbed) -> None:
    offload = ThreadOffload(1)
    reader = PlaybookReader(testbed, offload, no_demand)
    reading = asyncio.create_task(reader.read(LONG, file="long.yaml", parameters={}))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.wait([reading], timeout=0.01)
    assert reading.result().total_steps == 100
    assert turns > 5
    offload.close()


async def test_stored_demands_are_looked_up_once_each(testbed: Testbed) -> None:
    asked: list[DemandKey] = []

    async def find(key: DemandKey) -> DemandMatrix:
        asked.append(key)
        return DemandMatrix(name="moe", layer=key.layer, microbatch=0, hosts=["h0", "h1"], bytes=[[0, 5], [5, 0]])

    playbook = await PlaybookReader(testbed, InlineOffload(), find).read(DEMAND, file="p.yaml", parameters={})
    assert asked == [DemandKey(name="moe", layer=0), DemandKey(name="moe", layer=1)]
    (sweep,) = playbook.steps
    assert isinstance(sweep, SweepStep)
    wanted = [step.request.wanted for one in sweep.rounds for step in one.steps if isinstance(step, ApplyStep)]
    assert [one.name for one in wanted] == [f"matching demand=moe layer={layer}" for layer in (0, 1, 0)]
    assert all(one.links for one in wanted)
    assert playbook.ports >= {"h0.eth0", "h1.eth0"}


async def test_playbook_names_the_place_of_a_demand_that_is_not_stored_or_finds_no_room_for(testbed: Testbed) -> None:
    reader = PlaybookReader(testbed, InlineOffload(), no_demand)
    with pytest.raises(ConfigError) as raised:
        await reader.read(DEMAND, file="p.yaml", parameters={})
    assert "p.yaml:6: " in str(raised.value)
    assert "demand moe, layer 0, micro-batch 0: not stored (with layer=0)" in str(raised.value)
    many = DEMAND.replace("[0, 1, 0]", "{from: 0, to: 300}")
    with pytest.raises(ConfigError, match="a playbook reads at most 256 layers and micro-batches of stored demands"):
        await reader.read(many, file="p.yaml", parameters={})
    # A check without a daemon takes a stored demand as it is.
    assert load_playbook_text(DEMAND, file="p.yaml", testbed=testbed).name == "two-layers"
    with pytest.raises(ConfigError, match="'a/b': is no name of a demand"):
        load_playbook_text(DEMAND.replace("moe", "a/b"), file="p.yaml", testbed=testbed)
