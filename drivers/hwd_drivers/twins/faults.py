"""Faults: what can be made to go wrong with a twin, over all of its protocols at once."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.twins.mirror import Mirror

EARLY_NS: Final = 1_000
"""A timer that fires earlier than this before its time is set again: the loop's clock and the twin's may run at different rates."""

ChangeT = TypeVar("ChangeT")


class Endpoint(Protocol):
    """Where a twin is reached over one protocol: a TwinServer, or what does the same in its own way."""

    def cut(self) -> None:
        """End all sessions, now and without a word."""

    def restart(self, seconds: float) -> None:
        """End all sessions and take no new ones for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """The device's own words for no."""

    code: str
    text: str = ""


class Faults:
    """What goes wrong with a twin from now on; nothing at first. Set the attributes at any time.

    `slow_s`: every answer comes so much later. `silent`: commands are done and not answered. `refusing`: new sessions are ended at once.
    `half_next`: the next answer ends in its middle. `garble_next`: the next answer is garbage. `wrong_next`: the next answer is a well-formed one to something
    else. `deny_next`: the next change is denied. `partial_next`: only so many pairs of the next change are done; then it is denied, if `deny_next` is set too,
    else acknowledged.

    A front end asks `take_change` what to do of a change. One whose commands name one pair each asks `take_step`, for each of them, and says `end_change` when it
    is asked what is there: a change is then all commands up to a reading. It asks `take_wrong` before it answers, and sends its answers through `spoil` (`TwinSession.reply` does).
    `restores`: whether crossconnects are back after a reboot. `on_reboot` are called when the unit is up again, before sessions are taken.
    Its servers attach themselves; while there is one, the mirror moves on when its time has come.
    """

    def __init__(self, *, mirror: Mirror, clock: Clock, restores: bool = False) -> None:
        self.slow_s = 0.0
        self.silent = False
        self.refusing = False
        self.half_next = False
        self.garble_next = False
        self.wrong_next = False
        self.deny_next: Denial | None = None
        self.partial_next: int | None = None
        self.restores = restores
        self.on_reboot: list[Callable[[], None]] = []
        self._begun: set[Hashable] = set()
        """Pairs of a change that comes in steps and is to be done in part, as far as they are done."""
        self._left_out = False
        self._mirror = mirror
        self._clock = clock
        self._endpoints: list[Endpoint] = []
        self._reboot_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns: int | None = None

    # --- what goes wrong

    def reset(self) -> None:
        """Cut all sessions, now."""
        for endpoint in self._endpoints:
            endpoint.cut()

    def reboot(self, seconds: float) -> None:
        """Cut all sessions, take no new ones for so long, and come back in the power-up state."""
        if self._reboot_timer is not None:
            self._reboot_timer.cancel()
        self._reboot_timer = asyncio.get_running_loop().call_later(seconds, self._power_up)
        for endpoint in self._endpoints:  # before the light goes: nobody is told of that
            endpoint.restart(seconds)
        self._mirror.power_down(self._clock.monotonic_ns())

    @property
    def rebooting(self) -> bool:
        return self._reboot_timer is not None

    def panel(self, remove: Iterable[Crossconnect], add: Iterable[Crossconnect]) -> None:
        """Somebody at the front panel changes crossconnects behind our back. Raises ConfigError or RefusedError as the mirror does, and while it reboots."""
        if self.rebooting:
            raise RefusedError(f"{self._mirror.name}: reboots; its front panel does nothing until it is up")
        self._mirror.change(tuple(remove), tuple(add), self._clock.monotonic_ns())

    def stick(self, ends: Iterable[PortSide]) -> None:
        """The mirrors of `ends` do not move any more; commands are answered as if they did."""
        self._mirror.stick(ends)

    def fail(self, ends: Iterable[PortSide]) -> None:
        """No path of `ends` can be made any more; it is dark, and the switch says that it failed."""
        self._mirror.fail(ends, self._clock.monotonic_ns())

    def drift(self, ends: Iterable[PortSide], db: float, *, over_s: float = 0.0) -> None:
        """Each of `ends` loses `db` more, at once or little by little until `over_s` from now."""
        self._mirror.drift(ends, db, self._clock.monotonic_ns(), over_s=over_s)

    def clear(self) -> None:
        """All is well again; a reboot goes on, and what was changed at the panel stays."""
        self.slow_s = 0.0
        self.silent = self.refusing = self.half_next = self.garble_next = self.wrong_next = False
        self.deny_next = self.partial_next = None
        self._left_out = False
        self._begun.clear()
        self._mirror.release(self._clock.monotonic_ns())

    # --- for front ends

    def take_change(self, changes: Sequence[ChangeT]) -> tuple[Sequence[ChangeT], Denial | None]:
        """What to do of a change, and the denial to answer with after that; None where it is answered as if all were done. The faults are used up by it."""
        denial = self.take_denial()
        partial, self.partial_next = self.partial_next, None
        if partial is not None:
            return changes[:partial], denial
        return (changes if denial is None else ()), denial

    def take_step(self, pair: Hashable) -> tuple[bool, Denial | None]:
        """Whether to do a command that names one pair, and the denial to answer it with; of the same pair there may be several. `partial_next` counts pairs, and is
        used up by `end_change`."""
        if self.partial_next is None:
            denial = self.take_denial()
            return denial is None, denial
        if pair in self._begun:
            return True, None
        if len(self._begun) < self.partial_next:
            self._begun.add(pair)
            return True, None
        self._left_out = True
        return False, self.take_denial()

    def end_change(self) -> None:
        """The switch is read: what comes then is another change."""
        if self._begun or self._left_out:
            self.partial_next, self._left_out = None, False
            self._begun.clear()

    def take_denial(self) -> Denial | None:
        """The denial for this change, used up by that."""
        denial, self.deny_next = self.deny_next, None
        return denial

    def take_wrong(self) -> bool:
        """Whether this answer is to be a well-formed one to something else; used up by that."""
        wrong, self.wrong_next = self.wrong_next, False
        return wrong

    def spoil(self, answer: bytes) -> bytes | None:
        """What is sent in place of this answer; None is nothing. `slow_s` is for the caller to wait."""
        if self.silent:
            return None
        if self.garble_next:
            self.garble_next = False
            answer = b"\r\n\n#" + answer[::-1] + b"\r\n;\r\n"
        if self.half_next:
            self.half_next = False
            answer = answer[: len(answer) // 2]
        return answer

    def attach(self, endpoint: Endpoint) -> None:
        """One more way to reach the twin."""
        if not self._endpoints:
            self._mirror.on_schedule.append(self._arm)
            self._arm()
        self._endpoints.append(endpoint)

    def detach(self, endpoint: Endpoint) -> None:
        """One less; with the last one time stands still. Safe to call for one that is not attached."""
        if endpoint not in self._endpoints:
            return
        self._endpoints.remove(endpoint)
        if not self._endpoints:
            self._mirror.on_schedule.remove(self._arm)
            for timer in (self._timer, self._reboot_timer):
                if timer is not None:
                    timer.cancel()
            self._timer = self._reboot_timer = None

    # --- time

    def _power_up(self) -> None:
        self._reboot_timer = None
        self._mirror.power_up(self._clock.monotonic_ns(), restore=self.restores)
        for callback in self.on_reboot:
            callback()

    def _arm(self) -> None:
        due_ns = self._mirror.next_ns()
        if due_ns == self._due_ns and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_ns = due_ns
        if due_ns is not None:
            delay_s = max(0, due_ns - self._clock.monotonic_ns()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._advance, due_ns)

    def _advance(self, due_ns: int) -> None:
        """One that fires too early is set again."""
        self._timer = None
        now_ns = self._clock.monotonic_ns()
        if now_ns >= due_ns - EARLY_NS:
            self._mirror.advance(max(now_ns, due_ns))
        self._arm()
