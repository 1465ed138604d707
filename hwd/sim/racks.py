"""The small racks of simulated worlds: their testbed files, and what an operator may ask of each."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from hwd.daemon.installed_drivers import load_text
from hwd.fabric.fabric import Fabric
from hwd.model.testbed import Testbed

_HEAD: Final = """
testbed: {name}
host_actions: [autoneg, mtu]
switches:
{switches}
hosts:
  h0:
    twin: {{timing: ideal, seed: 1, clock: {{offset_s: 5, drift_ppm: 50}}}}
    nics:
{h0}
  h1:
    twin: {{timing: ideal, seed: 2, clock: {{offset_s: -3, drift_ppm: -40}}}}
    nics:
{h1}
fibres:
{fibres}
jobs:
  {job}:
    command: [{program}]
    arguments: true
    user: lab
    hosts: [h0, h1]
    plane: static topology=pairs
    within_s: 40
    answer_within_s: 20
    ready_within_s: 4
"""
JOB: Final = "train"
"""The job of each rack; where hosts own switches, it cannot have its light."""
PROGRAM: Final = "/bin/train"
_NIC: Final = "      eth{port}: {{rdma: mlx5_{port}, rail: {port}, ip: 10.1.{host}.{last}/32, module: 100g-lr4}}"
_TWIN: Final = "twin: {{timing: {timing}, seed: {seed}}}}}"
_MATRIX: Final = "{name}: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, " + _TWIN
_OWNED: Final = "{name}: {{driver: osw, model: osw, size: 1x4, owner: {host}, " + _TWIN


@dataclass(frozen=True, kw_only=True)
class Rack:
    """A rack of the simulation. `wanted`: what an apply may ask for, in the words of the command line. `attached`: the
    NIC port at the fibre of a switch port. `owned`: by host, its own switches.
    """

    name: str
    text: str
    wanted: tuple[str, ...]
    attached: dict[str, str]
    owned: dict[str, tuple[str, ...]]

    @cached_property
    def testbed(self) -> Testbed:
        return load_text(self.text, file=f"{self.name}.yaml").require()

    @cached_property
    def fabric(self) -> Fabric:
        return Fabric(self.testbed)

    @property
    def owners(self) -> dict[str, str]:
        """The host that each switch of a host belongs to."""
        return {name: switch.owner for name, switch in self.testbed.switches.items() if switch.owner is not None}

    @property
    def driven_switches(self) -> tuple[str, ...]:
        """The switches that the daemon drives."""
        return tuple(name for name, switch in self.testbed.switches.items() if switch.owner is None)


def _text(name: str, switches: list[str], ports: int, fibres: list[str]) -> str:
    def nics(host: int) -> str:
        return "\n".join(_NIC.format(port=port, host=host, last=port + 1) for port in range(ports))

    return _HEAD.format(
        name=name,
        switches="\n".join(f"  {one}" for one in switches),
        h0=nics(0),
        h1=nics(1),
        fibres="\n".join(f"  - {one}" for one in fibres),
        job=JOB,
        program=PROGRAM,
    )


ONE_SWITCH: Final = Rack(
    name="one-switch",
    text=_text(
        "one-switch",
        [_MATRIX.format(name="ocs1", timing="polatis-50ms", seed=7)],
        2,
        ["h0.eth0 <-> ocs1.1", "h0.eth1 <-> ocs1.2", "h1.eth0 <-> ocs1.3", "h1.eth1 <-> ocs1.4"],
    ),
    wanted=(
        "ocs1:1A-3B,3A-1B",
        "ocs1:1A-4B,4A-1B",
        "ocs1:2A-4B,4A-2B",
        "ocs1:2A-3B,3A-2B",
        "ocs1:1A-3B,3A-1B,2A-4B,4A-2B",
        "ocs1:1A-4B,4A-1B,2A-3B,3A-2B",
        "ocs1:5A-6B,6A-5B",
        "ocs1:5A-7B,1A-none",
    ),
    attached={"ocs1.1": "h0.eth0", "ocs1.2": "h0.eth1", "ocs1.3": "h1.eth0", "ocs1.4": "h1.eth1"},
    owned={},
)
TWO_SWITCHES: Final = Rack(
    name="two-switches",
    text=_text(
        "two-switches",
        [
            _MATRIX.format(name="ocs1", timing="polatis-50ms", seed=7),
            _MATRIX.format(name="ocs2", timing="polatis-opus", seed=8),
        ],
        2,
        ["h0.eth0 <-> ocs1.1", "h1.eth0 <-> ocs1.2", "h0.eth1 <-> ocs2.1", "h1.eth1 <-> ocs2.2"],
    ),
    wanted=(
        "ocs1:1A-2B,2A-1B",
        "ocs2:1A-2B,2A-1B",
        "ocs1:1A-2B,2A-1B ocs2:1A-2B,2A-1B",
        "ocs1:1A-3B,2A-4B ocs2:1A-3B,2A-4B",
        "ocs1:3A-4B,4A-3B ocs2:1A-2B,2A-1B",
        "ocs1:1A-2B,2A-1B ocs2:3A-4B,4A-3B",
    ),
    attached={"ocs1.1": "h0.eth0", "ocs1.2": "h1.eth0", "ocs2.1": "h0.eth1", "ocs2.2": "h1.eth1"},
    owned={},
)
HOST_OWNED: Final = Rack(
    name="host-owned",
    text=_text(
        "host-owned",
        [
            _MATRIX.format(name="ocs1", timing="polatis-50ms", seed=7),
            *(
                _OWNED.format(name=f"{way}{host}", host=f"h{host}", timing="lowradix-8ms", seed=1 + 2 * host + number)
                for host in (0, 1)
                for number, way in enumerate(("tx", "rx"))
            ),
        ],
        1,
        [
            "h0.eth0.tx -> tx0.in",
            "rx0.in -> h0.eth0.rx",
            "h1.eth0.tx -> tx1.in",
            "rx1.in -> h1.eth0.rx",
            "tx0.1 -> rx1.1",
            "tx1.1 -> rx0.1",
            "tx0.2 -> rx1.2",
            "tx1.2 -> rx0.2",
            "tx0.3 -> ocs1.1A",
            "ocs1.1B -> rx0.3",
            "tx1.3 -> ocs1.2A",
            "ocs1.2B -> rx1.3",
        ],
    ),
    wanted=("ocs1:1A-2B,2A-1B", "ocs1:1A-3B,3A-1B", "ocs1:2A-4B,4A-2B"),
    attached={},
    owned={"h0": ("tx0", "rx0"), "h1": ("tx1", "rx1")},
)


def _over(*trunks: tuple[int, int]) -> str:
    """The crossconnects, on both switches of `TRUNKS`, of the ports of hosts with the trunks that they get."""
    pairs = ",".join(f"{port}A-{trunk}B,{trunk}A-{port}B" for port, trunk in trunks)
    return f"ocs1:{pairs} ocs2:{pairs}"


TRUNKS: Final = Rack(
    name="trunks",
    text=_text(
        "trunks",
        [
            _MATRIX.format(name="ocs1", timing="polatis-50ms", seed=7),
            _MATRIX.format(name="ocs2", timing="polatis-opus", seed=8),
        ],
        2,
        [
            *(f"h{host}.eth{port} <-> ocs{host + 1}.{port + 1}" for host in (0, 1) for port in (0, 1)),
            *(f"ocs1.{trunk} <-> ocs2.{trunk}" for trunk in (5, 6, 7)),
        ],
    ),
    wanted=(
        _over((1, 5), (2, 6)),
        _over((1, 7), (2, 5)),
        _over((1, 6), (2, 5)),
        _over((1, 6), (2, 7)),
        _over((2, 6)),
        "ocs1:1A-5B,5A-1B,2A-6B,6A-2B ocs2:2A-5B,5A-2B,1A-6B,6A-1B",
    ),
    attached={f"ocs{host + 1}.{port + 1}": f"h{host}.eth{port}" for host in (0, 1) for port in (0, 1)},
    owned={},
)
RACKS: Final = {rack.name: rack for rack in (ONE_SWITCH, TWO_SWITCHES, HOST_OWNED, TRUNKS)}
