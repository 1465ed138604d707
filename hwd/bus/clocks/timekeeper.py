"""Timekeeper: asks one host's agent for the time, and says how the clocks are aligned and whether one was stepped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hwd.bus.clocks.clock_exchange import ClockExchange, Way
from hwd.bus.clocks.clock_udp import ClockUdp
from hwd.bus.host_agent import Emit, HostAgent
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import ClockRequest, Reply
from hwd_drivers.core.clock import Clock

log = logging.getLogger(__name__)

FIRST_BURST, LEAST_BURST, MOST_BURST, SPACING_S = 10, 2, 12, 0.007
"""Volleys at a birth, and each time after until both ways were quick once; apart from each other, so that one delay
does not meet them all."""
VOLLEY = 3
"""Requests one right after the answer to the other: the first wakes all on the way, and the others are a third quicker
and more alike."""
LEAST_BURST_UDP = 1
"""By UDP one volley mostly tells all: the kernels stamp, and no broker and no reader in between makes it slow."""
ANSWER_S, TRY_S = 0.5, 0.2
"""For the last answers of a burst; for the one by which UDP is tried."""
ALIVE_S = 4.0
"""A host that answers by UDP is asked over the broker after so long, whether its agent hears commands still."""
DOUBT_S = 1.0
"""For a clock to be looked at, when a time of its agent cannot be; not more often than that."""
BEHIND_S = 1.0
"""Watchers stamp each for itself: so much an event may be before one that was sent before it."""
PERIOD_FIRST_S, PERIOD_GROWTH, PERIOD_MOST_S = 0.25, 1.5, 3.0
"""Soon again at first, since the drift is not known yet: its error shrinks with the time between exchanges."""
EMIT_EVERY_S = 10.0
"""An alignment that only became a little better is told this often."""
SILENT_S = 10.0
"""An agent that answers no request for so long is down, whatever the broker thinks."""


class Timekeeper:
    """`send` publishes a request and returns whether it went out.

    `aligned` gets every new alignment, `tell` what is worth a document.
    """

    def __init__(
        self,
        host: HostAgent,
        *,
        clock: Clock,
        is_up: Callable[[], bool],
        send: Callable[[ClockRequest], Awaitable[bool]],
        aligned: Callable[[Alignment], None],
        emit: Emit,
        udp: ClockUdp | None = None,
    ) -> None:
        self._host = host
        self._clock = clock
        self._is_up = is_up
        self._send = send
        self._aligned = aligned
        self._emit = emit
        self._udp = udp
        self._woken = asyncio.Event()
        self._looked = asyncio.Event()
        self._seen: tuple[tuple[str, int], int] = ("", 0), 0
        self._doubted_s = -DOUBT_S

    def wake(self) -> None:
        """A boot was born, or the bus is up."""
        self._woken.set()

    def see(self, at_ns: int, *, now_ns: int) -> None:
        """The stamp of an event of the boot that lives, which came at `now_ns`: one that its clock does not show yet,
        or long before another, has the clock looked at now.

        Events come about in the order of their stamps, and those that are sent again are no newer than what was seen.
        """
        exchange = self._host.exchange
        alignment = None if exchange is None else exchange.alignment
        if exchange is None or alignment is None:
            return
        if self._seen[0] != (exchange.boot, exchange.steps):
            self._seen = (exchange.boot, exchange.steps), at_ns
        daemon_ns, error_ns = alignment.to_daemon(at_ns)
        ahead_ns, behind_ns = daemon_ns - error_ns - now_ns, self._seen[1] - at_ns
        self._seen = self._seen[0], max(at_ns, self._seen[1])
        if (ahead_ns > 0 or behind_ns > BEHIND_S * 1e9) and self._now_s() - self._doubted_s >= DOUBT_S:
            self._doubted_s = self._now_s()
            self._woken.set()

    async def check(self, reply: Reply, *, since_ns: int) -> bool:
        """Whether its clock was stepped, by the time in its reply to what was asked at `since_ns`; then it was looked
        at anew, and told.
        """
        exchange = self._host.exchange
        alignment = None if exchange is None or exchange.boot != reply.boot else exchange.alignment
        if exchange is None or alignment is None or reply.at_ns == 0:
            return False
        at_ns, error_ns = alignment.to_daemon(reply.at_ns)
        if since_ns - error_ns <= at_ns <= self._clock.monotonic_ns() + error_ns:
            return False
        steps = exchange.steps
        self._looked.clear()
        self._woken.set()
        try:
            async with asyncio.timeout(DOUBT_S):
                await self._looked.wait()
        except TimeoutError:
            log.debug("%s: its clock could not be looked at", self._host.name)
        return exchange.steps > steps

    async def ask_alive(self) -> None:
        """Ask the boot that lives over the broker, once, aside from what the clocks need."""
        if (exchange := self._host.exchange) is not None:
            await self._ask_over_broker(exchange, aside=True)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._run()
        finally:
            if self._udp is not None:
                self._udp.close()

    async def _run(self) -> None:
        exchange: ClockExchange | None = None
        period_s = PERIOD_FIRST_S
        emitted_s, emitted_steps, emitted_via = -EMIT_EVERY_S, 0, None
        while True:
            self._woken.clear()
            if self._host.exchange is not exchange:
                exchange, period_s = self._host.exchange, PERIOD_FIRST_S
                emitted_s, emitted_steps, emitted_via = -EMIT_EVERY_S, 0, None
            if exchange is not None and self._is_up():
                await self._measure(exchange)
                alignment = exchange.alignment
                if alignment is not None and self._host.exchange is exchange:
                    stepped = exchange.steps != emitted_steps
                    if stepped:
                        self._emit_step(exchange)
                        period_s = PERIOD_FIRST_S
                    due = self._now_s() - emitted_s >= EMIT_EVERY_S
                    if stepped or due or period_s < PERIOD_MOST_S or exchange.via is not emitted_via:
                        emitted_s, emitted_steps, emitted_via = self._now_s(), exchange.steps, exchange.via
                        self._emit(
                            "clock.aligned",
                            host=self._host.name,
                            **alignment.to_data(),
                            stepped=stepped,
                            via=exchange.via,
                            why_not_udp=exchange.why_not_udp,
                        )
                    self._aligned(alignment)
                self._looked.set()
                if self._host.up and self._host.silent_s(self._now_s()) > SILENT_S:
                    self._host.end(f"it answered no clock request for {SILENT_S} s")
                if not self._host.up and period_s == PERIOD_MOST_S:
                    self._host.silent_since_bus_up()
                period_s = min(PERIOD_MOST_S, period_s * PERIOD_GROWTH)
            try:
                async with asyncio.timeout(period_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _emit_step(self, exchange: ClockExchange) -> None:
        step = exchange.last_step
        if step is None:
            return
        log.warning("%s: %s. Events from around then may be put wrong by that", self._host.name, step)
        self._emit("clock.stepped", host=self._host.name, boot=exchange.boot, **step.to_data())

    async def _measure(self, exchange: ClockExchange) -> None:
        """By UDP where it is answered, else over the broker. One that is down is asked once, whether it is back."""
        if not self._host.up and exchange.asked:
            exchange.begin_burst()
            await self._ask_over_broker(exchange)
            await self._end_burst(exchange)
        elif await self._udp_works(exchange):
            if self._host.silent_s(self._now_s()) >= ALIVE_S:
                await self._ask_over_broker(exchange, aside=True)
        else:
            if exchange.via is Way.UDP:
                exchange.begin_way(Way.BROKER)
            await self._burst(exchange, self._ask_over_broker, least=LEAST_BURST)
            exchange.via = Way.BROKER if exchange.heard else exchange.via

    async def _udp_works(self, exchange: ClockExchange) -> bool:
        """Whether a burst by UDP was answered."""
        udp = self._udp
        if udp is None:
            exchange.why_not_udp = "the daemon asks nobody by UDP"
            return False
        clocks = None if self._host.birth is None else self._host.birth.clocks
        udp.aim(None if clocks is None else clocks.udp, "" if clocks is None else clocks.why_not_udp)
        if udp.due:
            await self._try_udp(exchange, udp)
        if udp.works:
            if exchange.via is not Way.UDP:
                exchange.begin_way(Way.UDP)
            await self._burst(exchange, self._ask_by_udp, least=LEAST_BURST_UDP)
            if exchange.heard:
                exchange.via, exchange.why_not_udp = Way.UDP, ""
                return True
            udp.failed()
            log.info("%s: its clock is asked over the broker: %s", self._host.name, udp.why_not)
        exchange.why_not_udp = udp.why_not
        return False

    async def _try_udp(self, exchange: ClockExchange, udp: ClockUdp) -> None:
        exchange.begin_burst()
        if (id := udp.ask(exchange)) is not None and await _answered(exchange, TRY_S):
            udp.worked()
            return
        if id is not None:
            exchange.give_up(id)
        udp.failed()

    async def _burst(
        self, exchange: ClockExchange, ask: Callable[[ClockExchange], Awaitable[bool]], *, least: int
    ) -> None:
        """Volleys until they are as quick as the best ones were, or it is clear that they will not be answered."""
        first = exchange.alignment is None
        exchange.begin_burst()
        for number in range(FIRST_BURST if first else MOST_BURST):
            if number:
                if not first and number >= least and exchange.quick:
                    break
                await asyncio.sleep(SPACING_S)
            for _ in range(VOLLEY):
                if not await ask(exchange):
                    return
                if not await _answered(exchange, SPACING_S):
                    break
        await self._end_burst(exchange)

    async def _end_burst(self, exchange: ClockExchange) -> None:
        if not await _answered(exchange, ANSWER_S):
            log.debug("%s: some clock requests were not answered", self._host.name)

    async def _ask_by_udp(self, exchange: ClockExchange) -> bool:
        assert self._udp is not None
        return self._udp.ask(exchange) is not None

    async def _ask_over_broker(self, exchange: ClockExchange, *, aside: bool = False) -> bool:
        t1_ns = self._clock.monotonic_ns()
        seq = self._host.next_seq(exchange.boot, "clock-request")
        id = exchange.ask(t1_ns, aside=aside)
        return await self._send(ClockRequest(boot=exchange.boot, seq=seq, id=id, t1_ns=t1_ns))

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


async def _answered(exchange: ClockExchange, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await exchange.answered.wait()
    except TimeoutError:
        return False
    return True
