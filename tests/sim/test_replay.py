"""One seed gives one history, in every process."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from conftest import CROSSED, EXAMPLE, STRAIGHT
from hwd.daemon.installed_drivers import load
from hwd.sim.world import World
from hwd_drivers.twins.virtual_time import run_virtual

PLAYBOOK = '''
playbook: back-and-forth
shows: the same twice
steps:
  - lease: {{ports: all, for_s: 300}}
  - apply: {{pairs: "%s"}}
  - wait: {{for: ready, within_s: 30}}
  - apply: {{pairs: "%s"}}
  - wait: {{for: ready, within_s: 30}}
''' % (STRAIGHT, CROSSED)

async def main(seed):
    async with World(load(EXAMPLE).require(), EXAMPLE.read_text(), seed=seed) as world:
        await world.run_playbook(PLAYBOOK, file="playbook.yaml")
    return [document.to_data() for document in world.documents]

for seed in map(int, sys.argv[1:]):
    print(json.dumps(run_virtual(main(seed), seed=seed), sort_keys=True))
"""


def histories(*seeds: int, hash_seed: str) -> list[bytes]:
    """A line for each seed, told by one process."""
    script = SCRIPT.format(here=str(Path(__file__).parent))
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
