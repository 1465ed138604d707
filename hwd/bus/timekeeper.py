"""Timekeeper: asks one host's agent for the time, often at its birth and then now and again, and says how the clocks stand."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hwd.bus.exchange import ClockExchange
from hwd.bus.host import Host, Tell
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import ClockRequest
from hwd_drivers.kit.clock import Clock

log = logging.getLogger(__name__)

FIRST_BURST, LEAST_BURST, MOST_BURST, SPACING_S = 10, 2, 12, 0.007
"""Volleys at a birth, and each time after until both ways were quick once; apart from each other, so that one delay does not meet them all."""
VOLLEY = 3
"""Requests one right after the answer to the other: the first wakes all on the way, and the others are a third quicker and more alike."""
ANSWER_S = 0.5
PERIOD_FIRST_S, PERIOD_GROWTH, PERIOD_MOST_S = 0.25, 1.5, 3.0
"""Soon again at first, since the drift is not known yet: its error shrinks with the time between exchanges."""
TELL_EVERY_S = 10.0
"""An alignment that only became a little better is told this often."""
SILENT_S = 10.0
"""An agent that answers no request for so long is down, whatever the broker thinks."""


class Timekeeper:
    """`send` publishes a request and returns whether it went out; `aligned` gets every new alignment, `tell` what is worth a document."""

    def __init__(
        self,
        host: Host,
        *,
        clock: Clock,
        is_up: Callable[[], bool],
        send: Callable[[ClockRequest], Awaitable[bool]],
        aligned: Callable[[Alignment], None],
        tell: Tell,
    ) -> None:
        self._host = host
        self._clock = clock
        self._is_up = is_up
        self._send = send
        self._aligned = aligned
        self._tell = tell
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """A boot was born, or the bus is up."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        exchange: ClockExchange | None = None
        period_s = PERIOD_FIRST_S
        told_s, told_steps = -TELL_EVERY_S, 0
        while True:
            self._woken.clear()
            if self._host.exchange is not exchange:
                exchange, period_s = self._host.exchange, PERIOD_FIRST_S
                told_s, told_steps = -TELL_EVERY_S, 0
            if exchange is not None and self._is_up():
                await self._burst(exchange)
                alignment = exchange.alignment
                if alignment is not None and self._host.exchange is exchange:
                    stepped = exchange.steps != told_steps
                    if stepped or period_s < PERIOD_MOST_S or self._now_s() - told_s >= TELL_EVERY_S:
                        told_s, told_steps = self._now_s(), exchange.steps
                        self._tell("clock.aligned", host=self._host.name, **alignment.to_data(), stepped=stepped)
                    self._aligned(alignment)
                if self._host.up and self._host.silent_s(self._now_s()) > SILENT_S:
                    self._host.end(f"it answered no clock request for {SILENT_S} s")
                if not self._host.up and period_s == PERIOD_MOST_S:
                    self._host.missed()
                period_s = min(PERIOD_MOST_S, period_s * PERIOD_GROWTH)
            try:
                async with asyncio.timeout(period_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _burst(self, exchange: ClockExchange) -> None:
        """Return when all are answered, or it is clear that they will not be. One that is down is asked once, whether it is back."""
        asked_anew = self._host.up or not exchange.asked
        first = exchange.alignment is None
        exchange.begin_burst()
        for number in range((FIRST_BURST if first else MOST_BURST) if asked_anew else 1):
            if number:
                if not first and number >= LEAST_BURST and exchange.quick:
                    break
                await asyncio.sleep(SPACING_S)
            for _ in range(VOLLEY if asked_anew else 1):
                t1_ns = self._clock.monotonic_ns()
                seq = self._host.next_seq(exchange.boot, "clock-request")
                if not await self._send(ClockRequest(boot=exchange.boot, seq=seq, id=exchange.ask(t1_ns), t1_ns=t1_ns)):
                    return
                if not await _answered(exchange, SPACING_S):
                    break
        if not await _answered(exchange, ANSWER_S):
            log.debug("%s: some clock requests were not answered", self._host.name)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


async def _answered(exchange: ClockExchange, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await exchange.answered.wait()
    except TimeoutError:
        return False
    return True
