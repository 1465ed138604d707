"""The driver of Polatis switches over TL1: crossconnects, power, shutters and attenuators in one session."""

import asyncio
import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.codecs.tl1_messages import Answer, Command, Completion
from hwd_drivers.core.errors import BugError, ConfigError, ProtocolError
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
from hwd_drivers.devices.tl1_client import Tl1Client
from hwd_drivers.families.polatis.switch import NumberedSwitch
from hwd_drivers.families.polatis.tl1 import protocol
from hwd_drivers.families.polatis.tl1.shutters import ShutterWords

T = TypeVar("T")

UNSUPPORTED: Final = "IICM"
"""The units' code for missing hardware, such as power monitors."""

KEPT_READINGS: Final = 4096
"""Most cached readings: equal values recur, and making them takes time in a read-back."""

KEPT_ANSWERS: Final = 8
"""Most cached answers: an unchanged switch repeats its answer."""


class PolatisOptions(BaseModel):
    """Options of a Polatis switch in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    login_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and logging in")
    dark_dbm: float = Field(
        default=-50.0, description="readings up to this are no light; units report -50.00 or -60.00"
    )
    read_before: bool = Field(
        default=True,
        description="read the crossconnects in the same write as each change, to know what it moved away",
    )
    moves_in_use: bool = Field(
        default=True, description="false: this unit refuses ports in use, so that replaced pairs are removed first"
    )
    shutter_words: dict[str, PortOverride] = Field(
        default={},
        description="meaning of this unit's words for its shutters, such as {RLS: normal, OPR: force-blocked}",
    )


class PolatisSwitch(NumberedSwitch):
    """One session with one switch; open it with `PolatisSwitch.open`."""

    def __init__(self, context: OpenContext, options: PolatisOptions, client: Tl1Client) -> None:
        super().__init__(context, client, dark_dbm=options.dark_dbm)
        self._options = options
        self._client = client
        self._patch = functools.lru_cache(maxsize=KEPT_READINGS)(self._make_patch)
        self._patches = functools.lru_cache(maxsize=KEPT_ANSWERS)(self._make_patches)
        self._words = ShutterWords(context.name, options.shutter_words)

    @classmethod
    async def open(cls, context: OpenContext) -> "PolatisSwitch":
        """Connect and log in. Raises LoginError where the switch refuses user or password."""
        options = context.options_as(PolatisOptions)
        if context.user is None or context.password is None:
            raise ConfigError(f"{context.name}: a Polatis switch needs a login. Give user and password in the testbed")
        deadline_s = asyncio.get_running_loop().time() + options.login_within_s
        client = await Tl1Client.open(
            context.dialer, context.address, name=context.name, clock=context.clock, deadline_s=deadline_s
        )
        try:
            switch = cls(context, options, client)
            await client.log_in(context.user, context.password, deadline_s=deadline_s)
        except BaseException:
            await client.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        commands = (protocol.RETRIEVE_TYPE, protocol.RETRIEVE_INVENTORY)
        kind, inventory = (await self._client.ask(*commands, deadline_s=deadline_s)).messages
        vendor, model, _, version = self._client.read("RTRV-NETYPE", kind, protocol.read_type)
        serial = self._client.read("RTRV-INV", inventory, protocol.read_serial)
        return Identity(vendor=vendor, model=model, serial=serial, firmware=version)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model, without missing monitors, shutters and attenuators.

        Raises ConfigError where the switch has another size.
        """
        commands = (
            protocol.RETRIEVE_SIZE,
            protocol.RETRIEVE_MONITORS,
            protocol.of_ports("RTRV-PORT-SHUTTER", (1,)),
            protocol.RETRIEVE_ATTENUATORS,
        )
        size, monitors, shutter, attenuators = (await self._client.ask(*commands, deadline_s=deadline_s)).messages
        self._check_size(self._client.read("RTRV-EQPT SIZE", size, protocol.read_size))
        stated = self._context.capabilities
        monitored: tuple[int, ...] = ()
        if monitors.error != UNSUPPORTED:
            monitored = self._client.read("RTRV-EQPT PMON", monitors, protocol.read_monitors)
        attenuates = attenuators.code is Completion.COMPLD and protocol.read_attenuators(attenuators)
        return replace(
            stated,
            monitored=tuple(self._end(port) for port in monitored),
            blockable=stated.blockable if shutter.code is Completion.COMPLD else (),
            attenuated=stated.attenuated if attenuates else (),
            moves_in_use=self._moves_in_use,
            reports_before=self._options.read_before,
        )

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        answered = await self._client.ask(protocol.RETRIEVE_PATCHES, deadline_s=deadline_s)
        return self._client.read("RTRV-PATCH", answered.messages[0], self._read_patches)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One ENT-PATCH with all of `add`, which moves ports in use; before it one DLT-PATCH for the rest, and a query.

        The DLT-PATCH has the pairs of `remove` that the ENT-PATCH does not move.
        """
        made = self._numbers(add)
        numbered = list(zip(remove, self._numbers(remove), strict=True))
        if self._moves_in_use:
            reused = set(itertools.chain.from_iterable(made))
            numbered = [each for each in numbered if each[1][0] not in reused and each[1][1] not in reused]
        changes: list[tuple[Command, Sequence[Crossconnect]]] = []
        if numbered:
            near = [one for _, (one, _) in numbered]
            changes.append((protocol.delete_patches(near), [pair for pair, _ in numbered]))
        if made:
            changes.append((protocol.enter_patches(made), add))
        if not changes:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        looks = [protocol.RETRIEVE_PATCHES] if self._options.read_before else []
        commands = [*looks, *(command for command, _ in changes)]
        answered = await self._client.ask(*commands, deadline_s=deadline_s, on_sent=on_commanded)
        for (command, pairs), answer in zip(changes, answered.messages[len(looks) :], strict=True):
            if answer.code is not Completion.COMPLD:
                self._client.done(f"{command.verb} {', '.join(pairs)}", answer)
        before = None
        if looks and answered.messages[0].code is Completion.COMPLD:
            found = self._client.read("RTRV-PATCH", answered.messages[0], self._read_patches)
            before = tuple([reading.crossconnect for reading in found])
        return Exchange(
            commanded_ns=answered.sent_ns,
            acknowledged_ns=answered.received_ns,
            commands=len(changes),
            before=before,
        )

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]:
        return self._powers(ends, await self._read_ports("RTRV-PORT-POWER", ends, protocol.read_powers, deadline_s))

    async def read_overrides(self, ends: Sequence[PortSide], *, deadline_s: float) -> Mapping[PortSide, PortOverride]:
        """Overrides by shutters, without ends whose word has an unknown meaning; `shutters` learns the words."""
        words = await self._read_ports("RTRV-PORT-SHUTTER", ends, protocol.read_shutters, deadline_s)
        meanings = {end: self._words.meaning(words[self._number(end)]) for end in ends}
        return {end: meaning for end, meaning in meanings.items() if meaning is not None}

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, deadline_s: float) -> None:
        if not ends:
            return
        ports = [self._number(end) for end in ends]
        command = protocol.of_ports(
            "OPR-PORT-SHUTTER" if to is PortOverride.FORCE_BLOCKED else "RLS-PORT-SHUTTER", ports
        )
        look = protocol.of_ports("RTRV-PORT-SHUTTER", ports)
        before, done, after = (await self._client.ask(look, command, look, deadline_s=deadline_s)).messages
        self._client.done(f"{command.verb} {', '.join(ends)}", done)
        if before.code is after.code is Completion.COMPLD:
            words = [self._of_all(look.verb, each, ends, protocol.read_shutters) for each in (before, after)]
            self._words.learn(words[0], words[1], to)

    async def read_attenuation(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[Attenuation, ...]:
        found = await self._read_ports("RTRV-PORT-ATTEN", ends, protocol.read_attenuation, deadline_s)
        return self._attenuations(ends, found)

    async def attenuate(self, wanted: Sequence[Attenuation], *, deadline_s: float) -> None:
        """Send one SET-PORT-ATTEN for each end, all in one write."""
        if not wanted:
            return
        commands = [protocol.set_attenuation(port, setting) for port, setting in self._settings(wanted)]
        answers = (await self._client.ask(*commands, deadline_s=deadline_s)).messages
        for each, answer in zip(wanted, answers, strict=True):
            self._client.done(f"SET-PORT-ATTEN {each.end}", answer)

    @property
    def _moves_in_use(self) -> bool:
        return self._options.moves_in_use and self._context.capabilities.moves_in_use

    async def close(self) -> None:
        """Log out, since a unit may allow few sessions, and close."""
        await self._client.close(self._context.user)

    async def _read_ports(
        self, verb: str, ends: Sequence[PortSide], reader: Callable[[Answer], dict[int, T]], deadline_s: float
    ) -> dict[int, T]:
        """What `reader` finds for each port of these ends."""
        if not ends:
            return {}
        command = protocol.of_ports(verb, [self._number(end) for end in ends])
        (answer,) = (await self._client.ask(command, deadline_s=deadline_s)).messages
        return self._of_all(verb, answer, ends, reader)

    def _of_all(
        self, verb: str, answer: Answer, ends: Sequence[PortSide], reader: Callable[[Answer], dict[int, T]]
    ) -> dict[int, T]:
        """The result of `reader`; an answer that lacks one of these ends ends the connection."""
        found = self._client.read(verb, answer, reader)
        if missing := [end for end in ends if self._number(end) not in found]:
            error = ProtocolError(f"{verb}: no reading of {', '.join(missing)} in the answer")
            raise self._client.distrust(answer, error)
        return found

    def _read_patches(self, answer: Answer) -> tuple[CrossconnectReading, ...]:
        return self._patches(answer.lines)

    def _make_patches(self, lines: tuple[str, ...]) -> tuple[CrossconnectReading, ...]:
        """Readings in the order of their ports."""
        return tuple([reading for _, reading in sorted(map(self._patch, lines), key=_first)])

    def _end(self, port: int) -> PortSide:
        if port not in self._ends:
            raise ProtocolError(f"the switch names port {port}, it has 1 to {self._numbering.total}")
        return self._ends[port]

    def _make_patch(self, line: str) -> tuple[int, CrossconnectReading]:
        one, other = protocol.read_patch(line)
        try:
            pair = Crossconnect.of(self._end(one), self._end(other))
        except ConfigError as error:
            raise ProtocolError(f"RTRV-PATCH: the switch reports {one},{other}: {error}") from error
        return min(one, other), CrossconnectReading(crossconnect=pair)


_first: Final = operator.itemgetter(0)
