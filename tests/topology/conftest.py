"""The rack of the Opus paper, with any number of hosts, rails and ports."""

from collections.abc import Callable

import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Host, NicPort, PacketSwitch, Strand, Switch, Testbed
from hwd_drivers.core.values import FibreEnd, Side

from ..capabilities import both_sides, capabilities
from ..modules import LR4


@pytest.fixture
def rack() -> Callable[..., Testbed]:
    """`electrical` ports a host are on a packet switch, after the optical ones; `groups` are the labels by host."""

    def rack(
        hosts: int, *, ports: int = 4, rails: int = 2, electrical: int = 0, groups: tuple[tuple[str, ...], ...] = ()
    ) -> Testbed:
        made, strands = {}, []
        for host in range(hosts):
            nics = tuple(
                NicPort(
                    id=NicPortId(host=f"h{host}", port=f"eth{port}"),
                    module=LR4,
                    interface=f"eth{port}",
                    rail=port * rails // ports if rails and port < ports else None,
                )
                for port in range(ports + electrical)
            )
            labels = groups[host] if groups else ()
            made[f"h{host}"] = Host(name=f"h{host}", ports=nics, groups=labels)
            for number, nic in enumerate(nics):
                owner = "ocs1" if number < ports else "eps1"
                port = str(host * (ports + electrical) + number + 1)
                into, out = (Side.A, Side.B) if owner == "ocs1" else (Side.RX, Side.TX)
                (tx,), (rx,) = nic.ends(Side.TX), nic.ends(Side.RX)
                strands.append(Strand(ends=(tx, FibreEnd(owner=owner, port=port, side=into))))
                strands.append(Strand(ends=(FibreEnd(owner=owner, port=port, side=out), rx)))
        size = hosts * (ports + electrical)
        able = capabilities(both_sides(size))
        return Testbed(
            name="rack",
            hosts=made,
            switches={"ocs1": Switch(name="ocs1", driver="oxc", model="m", capabilities=able)},
            strands=tuple(strands),
            packet_switches={"eps1": PacketSwitch(name="eps1", ports=size)},
        )

    return rack
