"""The NETCONF driver of Polatis switches: crossconnects, power, port states and attenuators over one session."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar
from xml.etree.ElementTree import Element

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.core.values import (
    Attenuation,
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    Exchange,
    Identity,
    PortOverride,
    PortSide,
    PowerReading,
)
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.polatis.netconf import protocol
from hwd_drivers.families.polatis.netconf.client import NetconfClient
from hwd_drivers.families.polatis.netconf.messages import Reply
from hwd_drivers.families.polatis.switch import NumberedSwitch
from hwd_drivers.transports.ssh.keys import HostTrust
from hwd_drivers.transports.ssh.session import SshLogin

T = TypeVar("T")

BLOCKED: Final = ("DISABLED", "PC_DISABLED")
"""Port states in which a port is dark by command, in new modules and in old ones."""
_SIZE = re.compile(r"-([0-9]{1,5})x([0-9]{1,5})-")


class NetconfOptions(BaseModel):
    """Options of a Polatis switch in a testbed that is driven over NETCONF."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    login_within_s: float = Field(default=10.0, gt=0, description="limit for connecting and logging in")
    dark_dbm: float = Field(
        default=-50.0, description="readings up to this are no light; units report -50.00 or -60.00"
    )
    host_key: str | None = Field(
        default=None, description="the unit's SSH host key, ssh-ed25519 AAAA..., or its fingerprint, SHA256:..."
    )
    known_hosts: Path | None = Field(default=None, description="a file of host keys in OpenSSH's format")
    trust_first: bool = Field(
        default=False, description="add the key of a host that is not in known_hosts, and trust it from then on"
    )
    key_file: Path | None = Field(default=None, description="private key to log in with, in place of the password")
    read_before: bool = Field(
        default=True, description="read the crossconnects in the same write as each change, to know what it moved away"
    )
    moves_in_use: bool = Field(
        default=True, description="false: this unit refuses ports in use, so that replaced pairs are removed first"
    )


class PolatisNetconfSwitch(NumberedSwitch):
    """One session with one switch; open it with `PolatisNetconfSwitch.open`."""

    def __init__(self, context: OpenContext, options: NetconfOptions, client: NetconfClient) -> None:
        super().__init__(context, client, dark_dbm=options.dark_dbm)
        self._options = options
        self._client = client
        self._entry = protocol.list_name(client.capabilities)
        self._old = self._entry == "pairs"
        self._ingress: dict[Crossconnect, int] = {}

    @classmethod
    async def open(cls, context: OpenContext) -> "PolatisNetconfSwitch":
        """Connect, log in, exchange hellos.

        Raises LoginError where the switch refuses user or password, ConfigError where its host key is not trusted.
        """
        options = context.options_as(NetconfOptions)
        if context.user is None or (context.password is None and options.key_file is None):
            raise ConfigError(f"{context.name}: a Polatis switch needs a login. Give user and password in the testbed")
        trust = HostTrust(host_key=options.host_key, known_hosts=options.known_hosts, trust_first=options.trust_first)
        client = await NetconfClient.open(
            context.dialer,
            context.address,
            name=context.name,
            login=SshLogin(user=context.user, password=context.password, key_file=options.key_file, trust=trust),
            clock=context.clock,
            deadline_s=asyncio.get_running_loop().time() + options.login_within_s,
        )
        return cls(context, options, client)

    async def identify(self, *, deadline_s: float) -> Identity:
        what = "get product-information"
        return await self._read(what, protocol.part("product-information"), protocol.read_product, deadline_s)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model, with the existing monitors and attenuators.

        Raises ConfigError where the switch has another size.
        """
        product = "get product-information", protocol.get(protocol.part("product-information"))
        asked = ("ports",) if self._old else ("port-config", "opm-power", "voa")
        parts = [protocol.old_ports((), "opm/power")] if self._old else [protocol.keys_of(name) for name in asked]
        lists = "get ports", protocol.get(*parts)
        answered = await self._client.ask(product, lists, deadline_s=deadline_s)
        model = self._client.read(product[0], answered.messages[0], protocol.read_product).model
        reply = answered.messages[1]
        data = self._client.read(lists[0], reply, lambda reply: protocol.read_data(reply, *asked))
        monitored = list(protocol.read_old_powers(reply)) if self._old else protocol.read_ports(data.get("opm-power"))
        ports = len(protocol.read_ports(data.get("ports" if self._old else "port-config")))
        wanted = self._numbering
        if (size := _SIZE.search(model)) is not None:
            found = f"{int(size[1])}x{int(size[2])}"
        else:
            found = str(wanted) if ports in (0, wanted.total) else f"{ports} ports"
        if found != str(wanted) or ports not in (0, wanted.total):
            raise ConfigError(
                f"{self.name}: the switch has {found} ({ports} ports), the testbed says {wanted}. "
                "Correct its size in the testbed file"
            )
        stated = self._context.capabilities
        return replace(
            stated,
            monitored=tuple(map(self._end, monitored)),
            attenuated=tuple(map(self._end, protocol.read_ports(data.get("voa")))),
            blockable=stated.ends,
            moves_in_use=self._moves_in_use,
            reports_before=self._options.read_before,
        )

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        pairs = await self._read("get cross-connects", protocol.part("cross-connects"), self._read_pairs, deadline_s)
        return tuple(CrossconnectReading(crossconnect=pair) for pair in pairs)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One edit-config: pairs of `add` are merged, which moves ports in use; the rest of `remove` is deleted."""
        made = self._numbers(add)
        reused = {port for pair in made for port in pair} if self._moves_in_use else set()
        removed = zip(remove, self._numbers(remove), strict=True)
        gone = [self._as_reported(pair, *ports) for pair, ports in removed if reused.isdisjoint(ports)]
        if not made and not gone:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        words = [f"delete {', '.join(remove)}"] * bool(gone) + [f"merge {', '.join(add)}"] * bool(made)
        change = (
            f"edit-config cross-connects: {'; '.join(words)}",
            protocol.edit(protocol.crossconnects(gone, made, entry=self._entry)),
        )
        look = "get cross-connects", protocol.get(protocol.part("cross-connects"))
        before = [look] if self._options.read_before else []
        answered = await self._client.ask(*before, change, deadline_s=deadline_s, on_sent=on_commanded)
        self._client.read(change[0], answered.messages[-1], protocol.read_ok)
        return Exchange(
            commanded_ns=answered.sent_ns,
            acknowledged_ns=answered.received_ns,
            commands=1,
            before=self._client.read(look[0], answered.messages[0], self._read_pairs) if before else None,
        )

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]:
        reader = protocol.read_old_powers if self._old else protocol.read_powers
        where = "ports/opm/power" if self._old else "opm-power"
        return self._powers(ends, await self._read_ports("get power", where, ends, reader, deadline_s))

    async def read_overrides(self, ends: Sequence[PortSide], *, deadline_s: float) -> Mapping[PortSide, PortOverride]:
        reader = protocol.read_old_states if self._old else protocol.read_statuses
        where = "ports/port-state" if self._old else "port-config"
        states = await self._read_ports("get port states", where, ends, reader, deadline_s)
        return {
            end: PortOverride.FORCE_BLOCKED if states[self._number(end)] in BLOCKED else PortOverride.NORMAL
            for end in ends
        }

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, deadline_s: float) -> None:
        """Set by port-set-state, with old modules by the state in the configuration: a disabled port is dark."""
        ports = [self._number(end) for end in ends]
        block = to is PortOverride.FORCE_BLOCKED
        if self._old:
            edit = protocol.edit(protocol.set_old_states(ports, protocol.OLD_STATES[block]))
            await self._do(f"edit-config ports {','.join(ends)}", edit, deadline_s)
        else:
            word = "port-disab" if block else "port-enab"
            await self._do(f"port-set-state {word} {','.join(ends)}", protocol.set_states(word, ports), deadline_s)

    async def read_attenuation(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[Attenuation, ...]:
        return self._attenuations(ends, await self._read_ports("get voa", "voa", ends, protocol.read_voa, deadline_s))

    async def attenuate(self, wanted: Sequence[Attenuation], *, deadline_s: float) -> None:
        what = f"edit-config voa {','.join(each.end for each in wanted)}"
        await self._do(what, protocol.edit(protocol.voa(self._settings(wanted))), deadline_s)

    @property
    def _moves_in_use(self) -> bool:
        return self._options.moves_in_use and self._context.capabilities.moves_in_use

    async def _do(self, what: str, operation: Element, deadline_s: float) -> None:
        (reply,) = (await self._client.ask((what, operation), deadline_s=deadline_s)).messages
        self._client.read(what, reply, protocol.read_ok)

    async def _read(self, what: str, part: Element, reader: Callable[[Reply], T], deadline_s: float) -> T:
        (reply,) = (await self._client.ask((what, protocol.get(part)), deadline_s=deadline_s)).messages
        return self._client.read(what, reply, reader)

    async def _read_ports(
        self,
        what: str,
        where: str,
        ends: Sequence[PortSide],
        reader: Callable[[Reply], dict[int, T]],
        deadline_s: float,
    ) -> dict[int, T]:
        """What `reader` finds for each port of these ends. `where`: a container, for old modules with a leaf of it."""
        if not ends:
            return {}
        ports = [self._number(end) for end in ends]
        container, _, leaf = where.partition("/")
        part = protocol.old_ports(ports, leaf) if leaf else protocol.part(container, ports)
        found = await self._read(what, part, reader, deadline_s)
        self._expect_all(what, ends, found.keys())
        return found

    def _read_pairs(self, reply: Reply) -> tuple[Crossconnect, ...]:
        """Read the pairs, and store the ingress of each: without sides, that may be either port."""
        pairs = protocol.read_pairs(reply, entry=self._entry)
        self._ingress = {self._crossconnect(*pair): pair[0] for pair in pairs}
        return tuple(sorted(self._ingress, key=Crossconnect.sort_key))

    def _as_reported(self, pair: Crossconnect, one: int, other: int) -> tuple[int, int]:
        """The pair as the unit last reported it, its ingress first."""
        return (other, one) if self._ingress.get(pair) == other else (one, other)
