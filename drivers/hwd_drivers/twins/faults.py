"""Faults of a twin, for all of its protocols at once."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.twins.mirror import Mirror

EARLY_NS: Final = 1_000
"""A timer that fires earlier than this before its time is set again: loop and twin may have different clocks."""

ChangeT = TypeVar("ChangeT")


class Endpoint(Protocol):
    """The server of a twin for one protocol: a TwinServer, or an equivalent."""

    def cut(self) -> None:
        """End all sessions at once, without notice."""

    def restart(self, seconds: float) -> None:
        """End all sessions and accept no new ones for `seconds`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A refusal in the device's own words."""

    code: str
    text: str = ""


class Faults:
    """Faults of a twin; none at first. Attributes can be set at any time.

    `slow_s`: delay of every answer. `silent`: commands are done and not answered. `refusing`: new sessions are ended at
    once. `half_next`: the next answer is cut in the middle. `garble_next`: the next answer is garbage. `wrong_next`:
    the next answer is a well-formed answer to another command. `deny_next`: the next change is denied. `partial_next`:
    only so many pairs of the next change are done; then it is denied if `deny_next` is set too, else acknowledged.

    A front end asks `take_change` what to do of a change. If its commands name one pair each, it asks `take_step` for
    each of them, and calls `end_change` at each reading: a change is then all commands up to a reading. It asks
    `take_wrong` before it answers, and sends its answers through `spoil` (`TwinSession.reply` does). `restores`:
    whether crossconnects are restored after a reboot. `on_reboot` are called when the unit is up again, before sessions
    are accepted. Servers attach themselves; while one is attached, the mirror advances in time.
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
        """Pairs done so far of a change that comes in steps and is to be done in part."""
        self._left_out = False
        self._mirror = mirror
        self._clock = clock
        self._endpoints: list[Endpoint] = []
        self._reboot_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns: int | None = None

    # --- faults

    def reset(self) -> None:
        """Cut all sessions now."""
        for endpoint in self._endpoints:
            endpoint.cut()

    def reboot(self, seconds: float) -> None:
        """Cut all sessions, accept no new ones for `seconds`, and come back in the power-up state."""
        if self._reboot_timer is not None:
            self._reboot_timer.cancel()
        self._reboot_timer = asyncio.get_running_loop().call_later(seconds, self._power_up)
        for endpoint in self._endpoints:  # before the light goes, which is then reported to nobody
            endpoint.restart(seconds)
        self._mirror.power_down(self._clock.monotonic_ns())

    @property
    def rebooting(self) -> bool:
        return self._reboot_timer is not None

    def panel(self, remove: Iterable[Crossconnect], add: Iterable[Crossconnect]) -> None:
        """Change crossconnects as at the front panel, past all sessions.

        Raises ConfigError or RefusedError as the mirror does, and during a reboot.
        """
        if self.rebooting:
            raise RefusedError(f"{self._mirror.name}: reboots; its front panel works again when it is up")
        self._mirror.change(tuple(remove), tuple(add), self._clock.monotonic_ns())

    def stick(self, ends: Iterable[PortSide]) -> None:
        """Stop the mirrors of `ends`; commands are still acknowledged."""
        self._mirror.stick(ends)

    def fail(self, ends: Iterable[PortSide]) -> None:
        """Make every path of `ends` fail: it is dark, and the switch reports it as failed."""
        self._mirror.fail(ends, self._clock.monotonic_ns())

    def drift(self, ends: Iterable[PortSide], db: float, *, over_s: float = 0.0) -> None:
        """Add `db` of loss to each of `ends`, at once or in small steps until `over_s` from now."""
        self._mirror.drift(ends, db, self._clock.monotonic_ns(), over_s=over_s)

    def clear(self) -> None:
        """Remove all faults; a reboot continues, and changes at the panel stay."""
        self.slow_s = 0.0
        self.silent = self.refusing = self.half_next = self.garble_next = self.wrong_next = False
        self.deny_next = self.partial_next = None
        self._left_out = False
        self._begun.clear()
        self._mirror.release(self._clock.monotonic_ns())

    # --- for front ends

    def take_change(self, changes: Sequence[ChangeT]) -> tuple[Sequence[ChangeT], Denial | None]:
        """The part of a change to execute, and the denial to answer (None: acknowledge). This uses up the faults."""
        denial = self.take_denial()
        partial, self.partial_next = self.partial_next, None
        if partial is not None:
            return changes[:partial], denial
        return (changes if denial is None else ()), denial

    def take_step(self, pair: Hashable) -> tuple[bool, Denial | None]:
        """Whether to do a command for one pair, and the denial to answer it with; a pair may have several commands.

        `partial_next` counts pairs, and is used up by `end_change`.
        """
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
        """Called when the switch is read: later commands are another change."""
        if self._begun or self._left_out:
            self.partial_next, self._left_out = None, False
            self._begun.clear()

    def take_denial(self) -> Denial | None:
        """The denial for this change, which uses it up."""
        denial, self.deny_next = self.deny_next, None
        return denial

    def take_wrong(self) -> bool:
        """Whether to answer with a well-formed answer to another command; this uses up the fault."""
        wrong, self.wrong_next = self.wrong_next, False
        return wrong

    def spoil(self, answer: bytes) -> bytes | None:
        """The bytes to send in place of this answer; None: nothing. The caller waits `slow_s`."""
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
        """Add a server of the twin."""
        if not self._endpoints:
            self._mirror.on_schedule.append(self._arm)
            self._arm()
        self._endpoints.append(endpoint)

    def detach(self, endpoint: Endpoint) -> None:
        """Remove a server; without one, time stops. Safe to call for one that is not attached."""
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
        """Advance the mirror; a timer that fires too early is set again."""
        self._timer = None
        now_ns = self._clock.monotonic_ns()
        if now_ns >= due_ns - EARLY_NS:
            self._mirror.advance(max(now_ns, due_ns))
        self._arm()
