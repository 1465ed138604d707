"""Testbeds for worlds."""

from pathlib import Path

import pytest

from hwd.config.testbed import load_testbed
from hwd.model.testbed import Testbed
from hwd_drivers.kit import registry

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAYBOOKS = Path(__file__).parents[2] / "playbooks"

TWO_HOSTS = """
testbed: two-hosts
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 7}}
hosts:
  h0:
    twin: {kernel: false, timing: opus-cx6dx, seed: 1, clock: {offset_s: 5, drift_ppm: 50}}
    nics:
      eth0: {rdma: mlx5_0, rail: 0, ip: 10.1.0.1/32, module: 100g-lr4}
      eth1: {rdma: mlx5_1, rail: 0, ip: 10.1.0.2/32, module: 100g-lr4}
  h1:
    twin: {kernel: false, timing: opus-cx6dx, seed: 2, clock: {offset_s: -3, drift_ppm: -40}}
    nics:
      eth0: {rdma: mlx5_0, rail: 0, ip: 10.1.1.1/32, module: 100g-lr4}
      eth1: {rdma: mlx5_1, rail: 0, ip: 10.1.1.2/32, module: 100g-lr4}
fibres:
  - h0.eth0 <-> ocs1.1
  - h0.eth1 <-> ocs1.2
  - h1.eth0 <-> ocs1.3
  - h1.eth1 <-> ocs1.4
"""

STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
"""Both ways to join the four ports in two links between the hosts."""


def load(text: str, folder: Path) -> Testbed:
    path = folder / "testbed.yaml"
    path.write_text(text)
    loaded = load_testbed(path, {name: registry.find(name) for name in registry.names()})
    assert loaded.testbed is not None, loaded.problems
    return loaded.testbed


@pytest.fixture
def two_hosts(tmp_path: Path) -> Testbed:
    return load(TWO_HOSTS, tmp_path)
