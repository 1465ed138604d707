"""The GID of an RDMA port in its files: the one that the probe uses, wherever the kernel put it."""

from pathlib import Path

import pytest

from hwd_agents.sources.kernel.sysfs import SysfsFiles
from hwd_agents.sources.verbs.gid import gid_of
from hwd_agents.watchers.gids import HOLES, PortGids
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import LinkError

IP = "10.1.0.1"
OURS = "0000:0000:0000:0000:0000:ffff:0a01:0001"
LINK_LOCAL = "fe80:0000:0000:0000:0a00:00ff:fe00:0001"
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
V1, V2 = "IB/RoCE v1", "RoCE v2"


class Port:
    """Files of a port as the kernel writes them."""

    def __init__(self, root: Path) -> None:
        self.files = SysfsFiles(SystemClock(), root=root)
        self.folder = root / "port"
        for folder in ("gids", "gid_attrs/types"):
            (self.folder / folder).mkdir(parents=True)
        self.link_layer("Ethernet")

    def link_layer(self, name: str) -> None:
        (self.folder / "link_layer").write_text(f"{name}\n")

    def put(self, *entries: tuple[str, str]) -> None:
        for index, (gid, kind) in enumerate(entries):
            (self.folder / f"gids/{index}").write_text(f"{gid}\n")
            (self.folder / f"gid_attrs/types/{index}").write_text(f"{kind}\n")

    def gids(self, ip: str | None = IP) -> PortGids:
        return PortGids(self.files, "port", ip)


@pytest.fixture
def port(tmp_path: Path) -> Port:
    return Port(tmp_path)


def test_an_ipv4_address_is_mapped_and_an_ipv6_address_is_itself() -> None:
    assert gid_of(IP) == OURS
    assert gid_of("fd00::1") == "fd00:0000:0000:0000:0000:0000:0000:0001"


async def test_the_first_gid_is_not_that_of_the_address(port: Port) -> None:
    """An interface has its link-local GID before anybody gives it an address."""
    port.put((LINK_LOCAL, V1), (LINK_LOCAL, V2), (EMPTY, ""))
    gids = port.gids()
    assert (await gids.look())[0] is False
    port.put((LINK_LOCAL, V1), (LINK_LOCAL, V2), (OURS, V1))
    assert (await gids.look())[0] is False, "it speaks RoCE v1, and the probe sends RoCE v2"
    port.put((LINK_LOCAL, V1), (LINK_LOCAL, V2), (OURS, V1), (OURS, V2))
    assert (await gids.look())[0] is True


async def test_one_that_goes_and_comes_elsewhere_is_found_again(port: Port) -> None:
    gids = port.gids()
    for entries, there in (
        (((LINK_LOCAL, V2), (OURS, V2)), True),
        (((LINK_LOCAL, V2), (EMPTY, "")), False),
        (((OURS, V2), (EMPTY, "")), True),
    ):
        port.put(*entries)
        assert (await gids.look())[0] is there
    port.put(*[(EMPTY, "")] * (HOLES - 1), (OURS, V2))
    assert (await port.gids().look())[0] is True, "empty places before it do not hide it"


async def test_infiniband_and_a_port_without_address_have_the_first_one(port: Port) -> None:
    port.put((LINK_LOCAL, "IB/RoCE v1"))
    assert (await port.gids(None).look())[0] is True
    assert (await port.gids().look())[0] is False
    port.link_layer("InfiniBand")
    assert (await port.gids().look())[0] is True
    port.put((EMPTY, ""))
    assert (await port.gids().look())[0] is False
    assert (await port.gids(None).look())[0] is False


# --- files under a root that is laid out as /sys is


STATE = "class/infiniband/mlx5_0/ports/1/state"


async def test_a_file_is_read_between_two_stamps_and_what_leads_out_is_refused(tmp_path: Path) -> None:
    files = SysfsFiles(SystemClock(), root=tmp_path)
    assert (await files.read_file(STATE)).text is None
    assert "no RDMA device here" in files.note.why_not
    (tmp_path / STATE).parent.mkdir(parents=True)
    (tmp_path / STATE).write_text("4: ACTIVE\n")
    files = SysfsFiles(SystemClock(), root=tmp_path)
    reading = await files.read_file(STATE)
    assert reading.text == "4: ACTIVE\n"
    assert reading.before_ns < reading.after_ns
    assert files.note.sees == ["rdma"]
    with pytest.raises(LinkError, match="cannot read: Is a directory"):
        await files.read_file("class")
    with pytest.raises(LinkError, match="leads out of"):
        await files.read_file("class/../../secret")
