"""What can be asked of verbs where there are none: every refusal says what to do."""

import asyncio
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hwd_agents.sources.verbs.library import Verbs
from hwd_agents.sources.verbs.queue_pairs import Place, RcPair, neighbour
from hwd_agents.sources.verbs.verbs import Retries
from hwd_agents.sources.verbs.verbs_port import RdmaDevices
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import LinkError

ARP = """IP address       HW type     Flags       HW address            Mask     Device
10.1.0.2         0x1         0x2         02:00:00:00:00:02     *        eth0
10.1.0.3         0x1         0x0         00:00:00:00:00:00     *        eth0
10.1.0.4         0x1         0x6         02:00:00:00:00:04     *        eth0
"""


def refusal(device: str, sysfs: Path) -> str:
    async def main() -> str:
        with pytest.raises(LinkError) as caught:
            RdmaDevices(SystemClock(), sysfs=sysfs).open(device, "10.1.0.1", lambda *_: None, lambda *_: None)
        return str(caught.value)

    return asyncio.run(main())


def test_a_device_that_is_not_there_and_a_port_that_is_no_number_are_refused(tmp_path: Path) -> None:
    assert refusal("mlx5_0", tmp_path) == "there is no RDMA device mlx5_0; `rdma link` lists the RDMA devices"
    assert refusal("mlx5_0/two", tmp_path) == "mlx5_0/two: not a port of an RDMA device; write mlx5_0 or mlx5_0/2"


@pytest.mark.skipif(importlib.util.find_spec("pyverbs") is not None, reason="pyverbs is installed here")
def test_a_missing_library_is_told_with_its_package(tmp_path: Path) -> None:
    (tmp_path / "class/infiniband/mlx5_0").mkdir(parents=True)
    why = refusal("mlx5_0", tmp_path)
    assert why.startswith("pyverbs cannot be loaded (No module named 'pyverbs'). Install python3-pyverbs")


def test_a_neighbour_is_known_only_with_its_link_layer_address(tmp_path: Path) -> None:
    table = tmp_path / "arp"
    table.write_text(ARP)
    known = {last: neighbour(table, f"::ffff:10.1.0.{last}") for last in range(2, 6)}
    assert known == {2: "02:00:00:00:00:02", 3: None, 4: "02:00:00:00:00:04", 5: None}
    assert neighbour(table, "fe80::1") is None


class PyverbsError(Exception):
    """As pyverbs has it."""


class Held:
    """What pyverbs gives; of a device that was removed the kernel gives nothing back."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.qp_num = 17
        self.buf = self.lkey = 0
        self.is_removed = False
        self.asked = 0

    def to_rts(self, _: Any) -> None: ...

    def post_recv(self, _: Any) -> None: ...

    def close(self) -> None:
        self.asked += 1
        if self.is_removed:
            raise PyverbsError("Failed to destroy. Errno: 5, Input/output error")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Verbs:
    """Our side of pyverbs on a pyverbs that holds nothing."""
    monkeypatch.setitem(sys.modules, "pyverbs", ModuleType("pyverbs"))
    monkeypatch.setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1")
    monkeypatch.delenv("RDMAV_ALLOW_DISASSOC_DESTROY")
    kinds = {"mr": "MR", "qp": "QP QPAttr QPCap QPInitAttr", "addr": "AHAttr GlobalRoute", "wr": "RecvWR SGE"}
    for name, classes in {**kinds, "pyverbs_error": "", "enums": "", "cq": "", "device": "", "pd": ""}.items():
        module = ModuleType(f"pyverbs.{name}")
        module.__dict__.update(dict.fromkeys(classes.split(), Held))
        module.__dict__.update(PyverbsError=PyverbsError, IBV_ACCESS_LOCAL_WRITE=1, IBV_QPT_RC=2)
        monkeypatch.setitem(sys.modules, f"pyverbs.{name}", module)
    return Verbs()


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_connection_lets_go_of_all_that_it_holds_and_says_so_once(
    library: Verbs, tmp_path: Path, is_removed: bool
) -> None:
    place = Place(domain=None, queue=None, port=1, gid_index=0, mtu=3, clock=SystemClock(), neighbours=tmp_path / "arp")
    made: list[Held] = []
    for kind in (library.mr, library.qp):
        kind.__dict__.update({name: _kept(made) for name in ("MR", "QP") if hasattr(kind, name)})
    closed: list[RcPair] = []
    retries = Retries(ack_timeout=14, count=7)
    assert retries.ack_timeout_s == pytest.approx(0.067108864), "4.096 us by powers of two"
    pair = RcPair(library, place, retries, closed.append)
    for held in made:
        held.is_removed = is_removed
    pair.close()
    pair.close()
    assert [held.asked for held in made] == [1, 1]
    assert closed == [pair]


@pytest.mark.parametrize("said", ["::ffff:10.1.0.2", "::ffff:a01:2", "0:0:0:0:0:FFFF:0A01:0002"])
def test_the_library_gets_the_gid_of_a_peer_in_eight_groups_however_the_peer_writes_it(
    library: Verbs, tmp_path: Path, said: str
) -> None:
    """pyverbs refuses any other form; a peer on Python 3.13 writes dots."""
    (table := tmp_path / "arp").write_text(ARP)
    place = Place(domain=None, queue=None, port=1, gid_index=3, mtu=3, clock=SystemClock(), neighbours=table)
    pair = RcPair(library, place, Retries(ack_timeout=14, count=7), lambda _: None)
    got: list[str] = []
    vars(library.addr)["GID"] = got.append
    assert pair.connect(said, 18)
    assert got == ["0000:0000:0000:0000:0000:ffff:0a01:0002"]
    pair.close()


def test_the_library_gives_back_what_is_held_of_a_removed_device(library: Verbs) -> None:
    assert os.environ["RDMAV_ALLOW_DISASSOC_DESTROY"] == "1"


def _kept(made: list[Held]) -> Any:
    def make(*_: Any, **__: Any) -> Held:
        made.append(Held())
        return made[-1]

    return make
