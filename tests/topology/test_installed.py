"""Topologies of other packages, as `hwd` finds them: a distribution on the path, with its entry points."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hwd.cli.run_command import run as run_command
from hwd.config import topologies
from hwd.config.plug_ins import PlugIns
from hwd.topology import TopologyKind
from hwd.topology.kind import GROUP

TREE = Path(__file__).parents[2]
CHAIN = """
from hwd.topology import TopologyKind

def links(party, given):
    for one, other in zip(party.hosts, party.hosts[1:]):
        yield party.link(one, 1, other, 0)

CHAIN = TopologyKind(links=links)
"""


Check = Callable[..., str]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Check]:
    """What `hwd check` says of a playbook with a topology, beside a package that declares it."""

    def check(topology: str, entry: str, module: str = CHAIN) -> str:
        declare(tmp_path, topology, entry, module)
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop("chain", None)
        found = PlugIns(GROUP, TopologyKind, "topology")  # as a new process finds them
        monkeypatch.setattr(topologies, "find", found.find)
        monkeypatch.setattr(topologies, "names", found.names)
        run_command(["check", str(TREE / "examples" / "opus-testbed.yaml"), str(tmp_path / "chained.yaml")])
        return "".join(capsys.readouterr())

    yield check
    sys.modules.pop("chain", None)


def declare(place: Path, topology: str, entry: str, module: str) -> None:
    (place / "chain.py").write_text(module)
    information = place / "rack_chain-1.0.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: rack-chain\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[hwd.topologies]\n{entry}\n")
    (place / "chained.yaml").write_text(
        f"playbook: chained\nsteps:\n  - lease: {{ports: all, for_s: 60}}\n  - apply: {topology}\n"
    )


def test_topology_of_another_package_is_found_by_its_name_with_its_arguments(check: Check) -> None:
    assert "2 files: 0 errors, 0 warnings" in check("{topology: chain, rail: 0}", "chain = chain:CHAIN")
    said = check("{topology: chain, rial: 0}", "chain = chain:CHAIN")
    assert re.search(r"chained\.yaml:4.*rial: unknown key; did you mean rail\?", said)


@pytest.mark.parametrize(
    ("entry", "module", "said"),
    [
        ("chain = chain:CHIAN", CHAIN, "cannot be loaded: AttributeError"),
        ("chain = chain:links", CHAIN, "is no TopologyKind"),
        ("chain = chain:CHAIN", "import torch_of_nobody", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_package_that_cannot_be_used_is_named_with_the_remedy(check: Check, entry: str, module: str, said: str) -> None:
    told = check("{topology: chain}", entry, module)
    assert re.search(rf"chained\.yaml:4.*topology 'chain': entry point .* of rack-chain {said}", told)
    assert "Mend rack-chain, or remove it" in told
