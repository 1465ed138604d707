"""mFabric: the links that ReconfigureOCS of the mFabric paper gives to hosts, by what they send each other."""

import itertools
from collections.abc import Iterator

from hwd.model.link import Link
from hwd.topology.choice import Party, need_hosts
from hwd.topology.kind import Given, TopologyKind
from hwd_drivers.core.errors import ConfigError


def mfabric(party: Party, given: Given) -> Iterator[Link]:
    """All NIC ports of each host; `variant` is `skip` or `stop`."""
    import numpy as np

    from hwd.mfabric.nic_mapping import OpticalPort, nic_links
    from hwd.mfabric.reconfigure_ocs import Variant, reconfigure_ocs

    need_hosts(given.name, party, least=2)
    text = given.arguments.get("variant", Variant.SKIP)
    if text not in [*Variant]:
        raise ConfigError(f"{given.name}: variant={text} is none of {', '.join(Variant)}")
    hosts = party.hosts
    demand = np.zeros((len(hosts), len(hosts)))
    for one, other in itertools.combinations(range(len(hosts)), 2):
        demand[one, other] = given.between(hosts[one], hosts[other])
    ports = [[OpticalPort(port.id, port.numa) for port in party.ports[host]] for host in hosts]
    links = reconfigure_ocs(demand, [len(some) for some in ports], variant=Variant(text))
    return (Link.of(mine, theirs) for mine, theirs in nic_links(links, ports))


MFABRIC = TopologyKind(links=mfabric, arguments=("demand", "variant"))
