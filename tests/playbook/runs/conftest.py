"""Two hosts on one switch and two on another, with a daemon that queues runs, in virtual time."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from ...sim.lab import Lab, OpenLab, opened

TESTBED = """\
testbed: two
host_actions: [mtu, autoneg]
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 7}}
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 8}}
hosts:
  h0: {twin: {timing: ideal, seed: 1}, nics: {eth0: {ip: 10.1.0.1/32, module: 100g-lr4}}}
  h1: {twin: {timing: ideal, seed: 2}, nics: {eth0: {ip: 10.1.1.1/32, module: 100g-lr4}}}
  h2: {twin: {timing: ideal, seed: 3}, nics: {eth0: {ip: 10.1.2.1/32, module: 100g-lr4}}}
  h3: {twin: {timing: ideal, seed: 4}, nics: {eth0: {ip: 10.1.3.1/32, module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.3
  - h2.eth0 <-> ocs2.1
  - h3.eth0 <-> ocs2.3
"""
FIRST, SECOND = "'ocs1:1A-3B,3A-1B'", "'ocs2:1A-3B,3A-1B'"


@pytest.fixture
def open_lab(tmp_path: Path, virtual_time: None) -> OpenLab:
    def open_lab() -> AbstractAsyncContextManager[Lab]:
        return opened(tmp_path, TESTBED)

    return open_lab
