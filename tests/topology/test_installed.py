"""Topologies of other packages, as `hwd` finds them: a distribution on the path, with its entry points."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
CHAIN = """
from hwd.topology import TopologyKind

def links(party, given):
    for one, other in zip(party.hosts, party.hosts[1:]):
        yield party.link(one, 1, other, 0)

CHAIN = TopologyKind(links=links)
"""


def check(place: Path, topology: str, entry: str, module: str = CHAIN) -> str:
    """What `hwd check` says of a playbook with this topology, beside a package that declares it."""
    (place / "chain.py").write_text(module)
    information = place / "rack_chain-1.0.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: rack-chain\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[hwd.topologies]\n{entry}\n")
    playbook = place / "chained.yaml"
    playbook.write_text(f"playbook: chained\nsteps:\n  - lease: {{ports: all, for_s: 60}}\n  - apply: {topology}\n")
    done = subprocess.run(
        [Path(sys.executable).parent / "hwd", "check", TREE / "examples" / "opus-testbed.yaml", playbook],
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout + done.stderr


def test_topology_of_another_package_is_found_by_its_name_with_its_arguments(tmp_path: Path) -> None:
    assert "2 files: 0 errors, 0 warnings" in check(tmp_path, "{topology: chain, rail: 0}", "chain = chain:CHAIN")
    said = check(tmp_path, "{topology: chain, rial: 0}", "chain = chain:CHAIN")
    assert re.search(r"chained\.yaml:4.*rial: unknown key; did you mean rail\?", said)


@pytest.mark.parametrize(
    ("entry", "module", "said"),
    [
        ("chain = chain:CHIAN", CHAIN, "cannot be loaded: AttributeError"),
        ("chain = chain:links", CHAIN, "is no TopologyKind"),
        ("chain = chain:CHAIN", "import torch_of_nobody", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_package_that_cannot_be_used_is_named_with_the_remedy(
    tmp_path: Path, entry: str, module: str, said: str
) -> None:
    told = check(tmp_path, "{topology: chain}", entry, module)
    assert re.search(rf"chained\.yaml:4.*topology 'chain': entry point .* of rack-chain {said}", told)
    assert "Mend rack-chain, or remove it" in told
