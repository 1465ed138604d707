"""The arguments of a topology select hosts, rails and groups of a testbed: parties of hosts with their NIC ports.

| argument | means |
|---|---|
| `hosts=h0,h1` | these hosts, in this order; by default all with optical NIC ports, in the order of the file |
| `rail=0` (or `0,1`) | NIC ports of these rails; by default every rail. Where no port has a rail, there is one |
| `groups=dp` | hosts by group labels: `dp` selects dp, dp0, ...; a label is a party. By default all hosts are one |

NIC ports on packet switches are never selected.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwd.fabric.fabric import Fabric
from hwd.model.circuit import Topology
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plural import plural
from hwd.model.testbed import NicPort, Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import natural_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """Hosts that are joined among themselves on one rail, with their NIC ports there, in order. `rail` None: the
    testbed has no rails.
    """

    hosts: tuple[str, ...]
    rail: int | None
    ports: Mapping[str, tuple[NicPort, ...]]
    label: str = ""

    @property
    def place(self) -> str:
        """Rail and group for messages: `on rail 0 of group dp1`."""
        words = [
            *([f"on rail {self.rail}"] if self.rail is not None else []),
            *([f"of group {self.label}"] if self.label else []),
        ]
        return " ".join(words) or "of the testbed"

    @property
    def least_ports(self) -> int:
        """The NIC ports that each of the hosts has at least."""
        return min((len(ports) for ports in self.ports.values()), default=0)

    def link(self, one: str, port: int, other: str, port_there: int) -> Link:
        """Join the NIC port of this number, from 0, of a host with one of another."""
        return Link.of(self.ports[one][port].id, self.ports[other][port_there].id)


def parties(testbed: Testbed, arguments: Mapping[str, str]) -> tuple[Party, ...]:
    """Parties by label, then by rail. Raises ConfigError where an argument selects nothing."""
    ports: dict[str, list[NicPort]] = {name: [] for name in testbed.hosts}
    for port in Fabric(testbed).optical_ports():
        ports[port.id.host].append(port)
    hosts = _hosts(testbed, ports, arguments.get("hosts"))
    groups = _groups(testbed, hosts, arguments.get("groups"))
    rails = _rails(hosts, ports, arguments.get("rail"))
    return tuple(
        Party(
            hosts=members,
            rail=rail,
            ports={
                host: tuple(
                    sorted(
                        (port for port in ports[host] if rail is None or port.rail == rail),
                        key=lambda port: natural_key(port.id.port),
                    )
                )
                for host in members
            },
            label=label,
        )
        for label, members in groups
        for rail in rails
    )


def topology_of(name: str, arguments: Mapping[str, str], links: Iterable[Link]) -> Topology:
    """Make a topology whose name says how it was made; raises ConfigError where a NIC port would be in two links."""
    made = tuple(links)
    text = " ".join([name, *(f"{key}={value}" for key, value in arguments.items())])
    used: dict[NicPortId, Link] = {}
    for link in made:
        for end in link.ends:
            if end in used:
                raise ConfigError(
                    f"{text}: {end} would be in {used[end]} and in {link}. Name groups that share no hosts"
                )
            used[end] = link
    return Topology(name=text, links=made)


def need_hosts(what: str, party: Party, *, least: int) -> None:
    """Raises ConfigError where the party has fewer hosts."""
    if len(party.hosts) < least:
        raise ConfigError(
            f"{what}: needs {plural(least, 'host')} at least; there are {', '.join(party.hosts)} {party.place}"
        )


def need_ports(what: str, party: Party, *, least: int) -> None:
    """Raises ConfigError where a host has fewer NIC ports there than `least`."""
    for host in party.hosts:
        have = party.ports[host]
        if len(have) < least:
            names = f" ({', '.join(port.id.port for port in have)})" if have else ""
            raise ConfigError(
                f"{what}: needs {least} NIC port{'s' if least > 1 else ''} on optical switches a host; "
                f"{host} has {len(have)}{names} {party.place}. "
                f"Leave {host} out with hosts=..., or choose another rail or topology"
            )


def _hosts(testbed: Testbed, ports: Mapping[str, Sequence[NicPort]], text: str | None) -> tuple[str, ...]:
    if text is None:
        hosts = tuple(name for name, mine in ports.items() if mine)
        if not hosts:
            raise ConfigError(f"testbed {testbed.name}: no host has a NIC port on an optical switch")
        return hosts
    hosts = _words(text)
    for host in hosts:
        if host not in testbed.hosts:
            raise ConfigError(f"hosts={text}: no host {host!r}; testbed {testbed.name} has {', '.join(testbed.hosts)}")
    if len(set(hosts)) < len(hosts):
        raise ConfigError(f"hosts={text}: a host is named twice")
    return hosts


def _groups(testbed: Testbed, hosts: tuple[str, ...], text: str | None) -> list[tuple[str, tuple[str, ...]]]:
    if text is None:
        return [("", hosts)]
    labels = sorted({label for host in hosts for label in testbed.hosts[host].groups}, key=natural_key)
    found: list[tuple[str, tuple[str, ...]]] = []
    groups = _words(text)
    if len(set(groups)) < len(groups):
        raise ConfigError(f"groups={text}: a group is named twice")
    for group in groups:
        matching = [label for label in labels if re.fullmatch(re.escape(group) + r"\d*", label)]
        if not matching:
            have = (
                f"they have {', '.join(labels)}"
                if labels
                else "they have none; give them `groups: [...]` in the testbed file"
            )
            raise ConfigError(f"groups={text}: none of the hosts has a group {group}; {have}")
        found += [(label, tuple(host for host in hosts if label in testbed.hosts[host].groups)) for label in matching]
    return found


def _rails(hosts: tuple[str, ...], ports: Mapping[str, Sequence[NicPort]], text: str | None) -> tuple[int | None, ...]:
    labels = sorted({port.rail for host in hosts for port in ports[host] if port.rail is not None})
    if text is None:
        return tuple(labels) or (None,)
    chosen = []
    for word in _words(text):
        if word not in map(str, labels):
            have = (
                f"they have {', '.join(map(str, labels))}" if labels else "the testbed file gives their NIC ports none"
            )
            raise ConfigError(f"rail={text}: the hosts have no optical NIC port on rail {word}; {have}")
        chosen.append(int(word))
    return tuple(dict.fromkeys(chosen))


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word for word in re.split(r"[,\s]+", text) if word)
    if not words:
        raise ConfigError("an argument without a value; write hosts=h0,h1")
    return words
