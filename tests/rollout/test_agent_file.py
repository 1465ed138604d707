"""The agent file that is made from a testbed, read back by the agent itself."""

from pathlib import Path

import pytest

from hwd.daemon.installed_drivers import load
from hwd.model.testbed import Testbed
from hwd.rollout.agent_files import make_agent_file, owned_switches
from hwd.rollout.layout import Layout
from hwd_agents.process.config import AgentConfig, ModuleTiming, load_config
from hwd_drivers.core.errors import ConfigError

FILE = """
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: 10.0.0.5}
  sel0: {driver: thorlabs-osw, model: osw12, address: /dev/ttyUSB0, owner: h0}
hosts:
  h0:
    ssh: root@10.0.0.10
    jobs: training
    nics:
      eth0: {interface: ens1f0, rdma: mlx5_0/2, ip: 10.1.0.1/32, module: 100g-lr4}
      eth1: {module: {type: 100g-cwdm4, part: QSFP28-CWDM4, los_s: 0.1}}
  h1: {ssh: root@10.0.0.11, nics: {eth0: {module: 100g-lr4}}}
  bare: {ssh: root@10.0.0.12}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.2
"""


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Testbed:
    path = tmp_path_factory.mktemp("testbed") / "lab.yaml"
    path.write_text(FILE)
    return load(path).require()


def read(testbed: Testbed, host: str, tmp_path: Path, layout: Layout | None = None) -> AgentConfig:
    path = tmp_path / "agent.yaml"
    path.write_bytes(
        make_agent_file(testbed, testbed.hosts[host], broker="mqtt://u:p@10.0.0.1", layout=layout or Layout())
    )
    return load_config(path)


def test_the_agent_watches_the_ports_of_the_testbed_and_owns_its_switches_and_a_host_without_ports_has_neither(
    testbed: Testbed, tmp_path: Path
) -> None:
    config = read(testbed, "h0", tmp_path)
    assert (config.testbed, config.host, config.broker) == ("lab", "h0", "mqtt://u:p@10.0.0.1")
    first, second = config.ports["eth0"], config.ports["eth1"]
    module = testbed.hosts["h0"].ports[0].module
    assert (first.interface, first.ip, first.rdma, first.lanes) == ("ens1f0", "10.1.0.1/32", "mlx5_0/2", 4)
    assert first.dark_dbm == pytest.approx(module.los_assert_dbm, abs=0.01)
    assert (second.interface, second.ip, second.rdma) == ("eth1", None, None)
    assert config.modules == {"QSFP28-CWDM4": ModuleTiming(los_s=0.1)}, "how late those are of which that is declared"
    assert config.selection.group == "training"
    other = read(testbed, "h1", tmp_path, Layout(prefix="/srv/hwd"))
    assert (other.modules, other.selection.group) == ({}, None)
    assert other.spool.directory == "/srv/hwd/var/lib/hwd-agent"
    (switch,) = owned_switches(testbed, testbed.hosts["h0"])
    assert switch.name == "sel0"
    assert (config.switches["sel0"].driver, config.switches["sel0"].address) == ("thorlabs-osw", switch.address)
    assert read(testbed, "h1", tmp_path).switches == {}
    with pytest.raises(ConfigError, match="bare: has no NIC ports in testbed lab"):
        make_agent_file(testbed, testbed.hosts["bare"], broker="mqtt://10.0.0.1", layout=Layout())
