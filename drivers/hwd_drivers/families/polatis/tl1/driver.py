"""The driver of Polatis switches over TL1: crossconnects, power, shutters and attenuators in one session."""

import asyncio
import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.codecs.tl1_messages import Answer, Completion
from hwd_drivers.core.errors import BugError, ConfigError, LoginError, ProtocolError
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
    Side,
)
from hwd_drivers.devices.connection import Answered
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.devices.tl1_client import Tl1Client, comment, words
from hwd_drivers.families.polatis.numbering import Numbering
from hwd_drivers.families.polatis.settings import VoaSetting
from hwd_drivers.families.polatis.tl1 import lines, protocol
from hwd_drivers.families.polatis.tl1 import requests as ask
from hwd_drivers.families.polatis.tl1.shutters import ShutterWords

UNSUPPORTED: Final = "IICM"
"""The units' code for missing hardware, such as power monitors."""

LOOK: Final = protocol.to_command(ask.RetrievePatch())

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


class PolatisSwitch:
    """One session with one switch; open it with `PolatisSwitch.open`."""

    def __init__(self, context: OpenContext, options: PolatisOptions, client: Tl1Client) -> None:
        self.name = context.name
        self._context = context
        self._options = options
        self._client = client
        self._numbering = Numbering.of(context.capabilities.ends)
        self._ends = {self._numbering.number(end): end for end in context.capabilities.ends}
        self._near = {end.port: number for number, end in self._ends.items() if end.side is not Side.B}
        self._far = {end.port: number for number, end in self._ends.items() if end.side is Side.B}
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
            await switch._log_in(context.user, context.password, deadline_s)
        except BaseException:
            await client.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        requests = (ask.RetrieveType(), ask.RetrieveInventory())
        kind, inventory = (await self._ask(*requests, deadline_s=deadline_s)).messages
        unit = self._client.read("RTRV-NETYPE", kind, lines.read_type)
        serial = self._client.read("RTRV-INV", inventory, lines.read_serial)
        return Identity(vendor=unit.vendor, model=unit.model, serial=serial, firmware=unit.version)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model, without missing monitors, shutters and attenuators.

        Raises ConfigError where the switch has another size.
        """
        requests = (
            ask.RetrieveSize(),
            ask.RetrieveMonitors(),
            ask.RetrieveShutter(ports=(1,)),
            ask.RetrieveAttenuators(),
        )
        size, monitors, shutter, attenuators = (await self._ask(*requests, deadline_s=deadline_s)).messages
        found = self._client.read("RTRV-EQPT SIZE", size, lines.read_size)
        if found != self._numbering:
            raise ConfigError(
                f"{self.name}: the switch has {found} ports, the testbed says {self._numbering}. "
                "Correct its size in the testbed file"
            )
        stated = self._context.capabilities
        monitored: tuple[int, ...] = ()
        if monitors.error != UNSUPPORTED:
            monitored = self._client.read("RTRV-EQPT PMON", monitors, lines.read_monitors)
        attenuates = attenuators.code is Completion.COMPLD and lines.read_attenuators(attenuators)
        return replace(
            stated,
            monitored=tuple(self._end(port) for port in monitored),
            blockable=stated.blockable if shutter.code is Completion.COMPLD else (),
            attenuated=stated.attenuated if attenuates else (),
            moves_in_use=self._moves_in_use,
            reports_before=self._options.read_before,
        )

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        answered = await self._ask(ask.RetrievePatch(), deadline_s=deadline_s)
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
        gone = [pair for pair, _ in numbered]
        changes: list[tuple[ask.Request, Sequence[Crossconnect]]] = []
        if gone:
            changes.append((ask.DeletePatch(ports=tuple([near for _, (near, _) in numbered])), gone))
        if made:
            changes.append((ask.EnterPatch(pairs=made), add))
        if not changes:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        looks = [LOOK] if self._options.read_before else []
        commands = [*looks, *(protocol.to_command(request) for request, _ in changes)]
        answered = await self._client.ask(*commands, deadline_s=deadline_s, on_sent=on_commanded)
        for (request, pairs), answer in zip(changes, answered.messages[len(looks) :], strict=True):
            if answer.code is not Completion.COMPLD:
                verb = "DLT-PATCH" if isinstance(request, ask.DeletePatch) else "ENT-PATCH"
                self._client.done(f"{verb} {', '.join(pairs)}", answer)
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
        if not ends:
            return ()
        ports = [self._number(end) for end in ends]
        answered = await self._ask(ask.RetrievePower(ports=tuple(ports)), deadline_s=deadline_s)
        powers = self._client.read("RTRV-PORT-POWER", answered.messages[0], lines.read_powers)
        self._check_all("RTRV-PORT-POWER", answered.messages[0], ends, powers)
        return tuple(
            PowerReading(end=end, power_dbm=powers[port] if powers[port] > self._options.dark_dbm else None)
            for port, end in zip(ports, ends, strict=True)
        )

    async def read_overrides(self, ends: Sequence[PortSide], *, deadline_s: float) -> Mapping[PortSide, PortOverride]:
        """Overrides by shutters, without ends whose word has an unknown meaning; `shutters` learns the words."""
        if not ends:
            return {}
        request = ask.RetrieveShutter(ports=tuple(map(self._number, ends)))
        answer = (await self._ask(request, deadline_s=deadline_s)).messages[0]
        words = self._shutter_words(answer, ends)
        meanings = {end: self._words.meaning(words[self._number(end)]) for end in ends}
        return {end: meaning for end, meaning in meanings.items() if meaning is not None}

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, deadline_s: float) -> None:
        if not ends:
            return
        ports = tuple(map(self._number, ends))
        blocks = to is PortOverride.FORCE_BLOCKED
        request = ask.CloseShutter(ports=ports) if blocks else ask.OpenShutter(ports=ports)
        look = ask.RetrieveShutter(ports=ports)
        before, done, after = (await self._ask(look, request, look, deadline_s=deadline_s)).messages
        self._client.done(f"{'OPR' if blocks else 'RLS'}-PORT-SHUTTER {', '.join(ends)}", done)
        if before.code is after.code is Completion.COMPLD:
            self._words.learn(self._shutter_words(before, ends), self._shutter_words(after, ends), to)

    async def read_attenuation(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[Attenuation, ...]:
        if not ends:
            return ()
        request = ask.RetrieveAttenuation(ports=tuple(map(self._number, ends)))
        answer = (await self._ask(request, deadline_s=deadline_s)).messages[0]
        settings = self._client.read("RTRV-PORT-ATTEN", answer, lines.read_attenuation)
        self._check_all("RTRV-PORT-ATTEN", answer, ends, settings)
        return tuple(self._attenuation(end, settings[self._number(end)]) for end in ends)

    async def attenuate(self, wanted: Sequence[Attenuation], *, deadline_s: float) -> None:
        """Send one SET-PORT-ATTEN for each different setting, all in one write."""
        if not wanted:
            return
        requests = [
            ask.SetAttenuation(
                ports=(self._number(each.end),),
                mode=each.mode,
                level=each.level,
                references=() if each.reference is None else (self._number(each.reference),),
            )
            for each in wanted
        ]
        answers = (await self._ask(*requests, deadline_s=deadline_s)).messages
        for each, answer in zip(wanted, answers, strict=True):
            self._client.done(f"SET-PORT-ATTEN {each.end}", answer)

    @property
    def _moves_in_use(self) -> bool:
        return self._options.moves_in_use and self._context.capabilities.moves_in_use

    async def lost(self) -> Exception:
        return await self._client.lost()

    async def close(self) -> None:
        """Log out, since a unit may allow few sessions, and close."""
        await self._client.close(protocol.to_command(ask.Logout(user=self._context.user or "")))

    async def _log_in(self, user: str, password: str, deadline_s: float) -> None:
        answered = await self._ask(ask.Login(user=user, password=password), deadline_s=deadline_s)
        answer = answered.messages[0]
        if answer.code is not Completion.COMPLD:
            text = f"{self.name}: the switch refuses the login of {user}: {words(answer)}. Check user and password"
            raise LoginError(text, device=self.name, command="ACT-USER", code=answer.error, text=comment(answer))

    async def _ask(
        self, *requests: ask.Request, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[Answer]:
        return await self._client.ask(*map(protocol.to_command, requests), deadline_s=deadline_s, on_sent=on_sent)

    def _read_patches(self, answer: Answer) -> tuple[CrossconnectReading, ...]:
        return self._patches(answer.lines)

    def _make_patches(self, lines: tuple[str, ...]) -> tuple[CrossconnectReading, ...]:
        """Readings in the order of their ports."""
        return tuple([reading for _, reading in sorted(map(self._patch, lines), key=_first)])

    def _shutter_words(self, answer: Answer, ends: Sequence[PortSide]) -> Mapping[int, str]:
        words = self._client.read(
            "RTRV-PORT-SHUTTER", answer, lambda found: lines.read_words(found, "RTRV-PORT-SHUTTER")
        )
        self._check_all("RTRV-PORT-SHUTTER", answer, ends, words)
        return words

    def _check_all(self, verb: str, answer: Answer, ends: Sequence[PortSide], readings: Mapping[int, object]) -> None:
        if missing := [end for end in ends if self._number(end) not in readings]:
            error = ProtocolError(f"{verb}: no reading of {', '.join(missing)} in the answer")
            raise self._client.distrust(answer, error)

    def _attenuation(self, end: PortSide, setting: VoaSetting) -> Attenuation:
        reference = None if setting.reference is None else self._end(setting.reference)
        return Attenuation(end=end, mode=setting.mode, level=setting.level, reference=reference)

    def _numbers(self, pairs: Sequence[Crossconnect]) -> tuple[tuple[int, int], ...]:
        """The unit's numbers of both ends of each pair."""
        return tuple([(self._number(pair.a), self._number(pair.b)) for pair in pairs])

    def _number(self, end: PortSide) -> int:
        number = (self._far if end.side is Side.B else self._near).get(end.port)
        return number if number is not None and end.side is self._ends[number].side else self._numbering.number(end)

    def _end(self, number: int) -> PortSide:
        if number not in self._ends:
            raise ProtocolError(f"the switch names port {number}, it has 1 to {self._numbering.total}")
        return self._ends[number]

    def _make_patch(self, line: str) -> tuple[int, CrossconnectReading]:
        one, other = lines.read_patch(line)
        try:
            pair = Crossconnect.of(self._end(one), self._end(other))
        except ConfigError as error:
            raise ProtocolError(f"RTRV-PATCH: the switch reports {one},{other}: {error}") from error
        return min(one, other), CrossconnectReading(crossconnect=pair)


_first: Final = operator.itemgetter(0)
