"""Virtual runs and their records: a file that outlasts journals, and one history of a seed in every process."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]

from hwd.config.json_schema import json_schema
from hwd.daemon.installed_drivers import load
from hwd.model.kinds import read_document
from hwd.sim.world import World
from hwd_drivers.core.structs import to_json
from hwd_drivers.twins.virtual_time import run_virtual

from ..virtual_time import SELDOM_S
from .conftest import CROSSED, EXAMPLE, STRAIGHT

PLAYBOOK = """
playbook: once
shows: one change
steps:
  - lease: {ports: all, for_s: 300}
  - apply: {pairs: "ocs1:1A-3B,3A-1B"}
"""


def test_a_second_virtual_run_misses_no_journal(tmp_path: Path) -> None:
    """A journal in memory is gone with its world: to the records' next world that is no damage, and holds nothing."""

    async def run(seed: int) -> World:
        url = f"sqlite:///{tmp_path}/records.db"
        async with World(load(EXAMPLE).require(), EXAMPLE.read_text(), seed=seed, records_url=url) as world:
            await world.run_playbook(PLAYBOOK, file="playbook.yaml")
        return world

    for seed in (1, 2):
        world = run_virtual(run(seed), seed=seed)
        kinds = [document.kind for document in world.documents]
        assert "journal.damaged" not in kinds
        assert kinds.count("reconfiguration.ended") == 1


def test_what_a_world_emits_is_read_back_as_it_was_and_is_what_the_schema_says() -> None:
    async def run() -> World:
        async with World(load(EXAMPLE).require(), EXAMPLE.read_text(), seed=1, light_every_s=SELDOM_S) as world:
            await world.run_playbook(PLAYBOOK, file="playbook.yaml")
        return world

    documents = run_virtual(run(), seed=1).documents
    schema = jsonschema.Draft202012Validator(json_schema("document"))
    assert len({document.kind for document in documents}) > 15
    for document in documents:
        told = json.loads(to_json(document.to_data()))
        assert read_document(told) == document
        assert [error.message for error in schema.iter_errors(told)] == []


SCRIPT = """
import json, sys
from pathlib import Path
from hwd.daemon.installed_drivers import load
from hwd.sim.world import World
from hwd_drivers.twins.virtual_time import run_virtual

EXAMPLE = Path({example!r})
PLAYBOOK = '''
playbook: back-and-forth
shows: the same twice
steps:
  - lease: {{ports: all, for_s: 300}}
  - apply: {{pairs: "{straight}"}}
  - wait: {{for: ready, within_s: 30}}
  - apply: {{pairs: "{crossed}"}}
  - wait: {{for: ready, within_s: 30}}
'''

async def main(seed):
    async with World(load(EXAMPLE).require(), EXAMPLE.read_text(), seed=seed, light_every_s={seldom_s}) as world:
        await world.run_playbook(PLAYBOOK, file="playbook.yaml")
    return [document.to_data() for document in world.documents]

for seed in map(int, sys.argv[1:]):
    print(json.dumps(run_virtual(main(seed), seed=seed), sort_keys=True))
"""


def histories(*seeds: int, hash_seed: str) -> list[bytes]:
    """A line for each seed, told by one process."""
    script = SCRIPT.format(example=str(EXAMPLE), seldom_s=SELDOM_S, straight=STRAIGHT, crossed=CROSSED)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, seeds)], capture_output=True, env=environment, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.splitlines()


def test_one_seed_gives_one_history_in_two_processes() -> None:
    first, other = histories(7, 8, hash_seed="1")
    (second,) = histories(7, hash_seed="2")
    assert first.count(b'"kind": "timeline"') == 2
    assert b'"outcome": "succeeded"' in first
    assert hashlib.sha256(first).hexdigest() == hashlib.sha256(second).hexdigest()
    assert first != other
