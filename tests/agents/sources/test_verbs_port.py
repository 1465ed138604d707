"""What can be asked of verbs where there are none: every refusal says what to do."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

from hwd_agents.sources.verbs import Retries
from hwd_agents.sources.verbs_pairs import neighbour
from hwd_agents.sources.verbs_port import RdmaDevices
from hwd_drivers.kit.clock import SystemClock
from hwd_drivers.kit.errors import LinkError

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


def test_a_device_that_is_not_there_is_named_with_where_to_look(tmp_path: Path) -> None:
    assert refusal("mlx5_0", tmp_path) == "there is no RDMA device mlx5_0; `rdma link` names those that there are"


def test_a_port_that_is_no_number_is_refused(tmp_path: Path) -> None:
    assert refusal("mlx5_0/two", tmp_path) == "mlx5_0/two: no port of an RDMA device; write mlx5_0 or mlx5_0/2"


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


def test_an_ack_timeout_is_in_powers_of_two_of_4_microseconds() -> None:
    assert Retries(ack_timeout=14, count=7).ack_timeout_s == pytest.approx(0.067108864)
