"""OpticsWatcher: reads a module, fast while its port is observed, and reports when light went and came."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from hwd_agents.process.config import ModuleTiming, PortConfig, SamplingConfig
from hwd_agents.sources.modules.module_kinds import parse_module
from hwd_agents.sources.modules.module_memory import Los, ModuleMemory
from hwd_agents.sources.readings import ModuleSource
from hwd_agents.spool.outbox import Emit
from hwd_agents.watchers.burst import Burst
from hwd_agents.watchers.light_judge import LightJudge, LightSample
from hwd_agents.watchers.module_monitors import monitors_of, moved
from hwd_agents.watchers.poll_timer import PollTimer
from hwd_agents.watchers.tally import Tally
from hwd_agents.wire import Observation
from hwd_agents.wire.events import LightData, MonitorData
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError, ProtocolError, RefusedError
from hwd_drivers.core.reason import reason_of

SOURCE: Final = "module"
BEHIND: Final = 1.25
"""A limit is reported when the module is read so much less often than was asked for."""
_log = logging.getLogger(__name__)


class OpticsWatcher:
    """The watcher of a port's light: events `dark`, `light`, and `monitors` when its module's measurements changed.

    The phase of the samples of a burst is drawn from `phase`. Else each burst would sample at the same times after its
    command, and many reconfigurations would show no more than one. A port that stays lit emits nothing: its Observation
    says that the light was never away. `timings`: by part number. `on_change` is called when the port has another
    module, or when what can be seen of it has changed. A change of light on a module of unknown timing has no earliest
    time: its event says `one_sided`, and its `earliest_ns` is 0, the start of the host's clock.

    `module`: as of the last read. `why_not`: why its light cannot be seen; empty when it can.
    """

    def __init__(
        self,
        name: str,
        config: PortConfig,
        source: ModuleSource,
        clock: Clock,
        emit: Emit,
        *,
        sampling: SamplingConfig,
        phase: random.Random,
        timings: Mapping[str, ModuleTiming],
        on_change: Callable[[], None],
    ) -> None:
        self._phase = phase
        self._on_change = on_change
        self._said = ""
        self._timings = timings
        self._refused = False
        self._burst_begins = False
        self._name = name
        self._config = config
        self._source = source
        self._clock = clock
        self._emit = emit
        self._sampling = sampling
        self._judge = LightJudge()
        self._poll_timer = PollTimer()
        self._observed = False
        self._tally: Tally | None = None
        self._burst = Burst()
        self._behind = ""
        self._last_monitors: MonitorData | None = None
        self._last_monitors_s = 0.0
        self._settled_from_s: float | None = None
        self._sampled: asyncio.Future[None] | None = None
        self.module: ModuleMemory | None = None
        self.why_not = ""

    @property
    def lit(self) -> bool | None:
        """Whether there was light at the last sample; None when unknown."""
        return None if self.why_not else self._judge.lit

    async def run(self) -> None:
        while True:
            await self._sample()
            await self._poll_timer.wait(self._every_s())

    def hurry(self) -> None:
        """Read the module now."""
        self._poll_timer.hurry()

    async def begin(self) -> None:
        """Observe the port; returns after its first sample, even if that failed."""
        self._observed = self._burst_begins = True
        self._settled_from_s = None
        self._tally = None  # changes that the first sample finds happened before the observation
        self._burst = Burst()
        sampled = self._sampled = asyncio.get_running_loop().create_future()
        self._poll_timer.hurry()
        await sampled

    def end(self) -> None:
        self._observed = False
        self._judge_burst()
        if self._tally is not None:
            self._tally.end(self._clock.monotonic_ns())

    def observation(self) -> Observation:
        """What was seen of its light since `begin`."""
        if self._tally is None:
            return Observation(seen=False, why_not=self.why_not or "not observed")
        return self._tally.observation(self._clock.monotonic_ns(), polled=True)

    def _every_s(self) -> float | None:
        """Fast while observed, until light that had gone has been back for a while."""
        if not self._observed or self._refused:
            return self._sampling.light_slow_s or None
        if self._settled():
            return self._sampling.light_slow_s or None
        fast_s = self._sampling.light_fast_s
        if self._burst_begins and self._tally is not None and not self._poll_timer.hurried:
            self._burst_begins = False
            return self._phase.uniform(0, fast_s)
        return fast_s

    def _settled(self) -> bool:
        """Whether light that had gone has been back so long that slow reads are enough again."""
        settled = self._settled_from_s
        return settled is not None and asyncio.get_running_loop().time() - settled >= self._sampling.light_settled_s

    def _judge_burst(self) -> None:
        """Report a limit when the reads were slower than was asked for."""
        every_s, read_s, asked_s = self._burst.every_s, self._burst.read_s, self._sampling.light_fast_s
        if every_s is None or read_s is None:
            return
        self._behind = (
            f"it was read every {every_s * 1e3:.2g} ms when it was last observed, "
            f"but every {asked_s * 1e3:g} ms was asked for: a read takes {read_s * 1e3:.2g} ms"
            if every_s > BEHIND * asked_s
            else ""
        )

    def limits(self) -> str:
        """What a source that works cannot see of the light; empty when there is no such limit."""
        module = self.module
        if module is None or self.why_not:
            return ""
        los_words = {
            Los.LATCHED: "",
            Los.STATE: "its loss of signal is a state: an outage between two reads is missed",
            Los.NONE: "it reports no loss of signal: an outage between two reads is missed",
        }[module.los]
        timing = self._timings.get(module.part, ModuleTiming())
        needed = [] if module.los is Los.NONE else [("los_s", timing.los_s)]
        needed += [] if module.los is Los.LATCHED else [("monitor_s", timing.monitor_s)]
        missing = " and ".join(f"modules.{module.part}.{name}" for name, value in needed if value is None)
        late = f"how early light went or came is unknown: declare {missing} in the agent's file" if missing else ""
        return "; ".join(words for words in (los_words, late, self._behind) if words)

    def monitors(self) -> MonitorData | None:
        """Powers, bias and temperature as of the last read; None while nothing can be read.

        The period of the reads when the port was last observed, and the time of a read, are means.
        """
        module = self.module
        if module is None or self.why_not:
            return None
        now = monitors_of(module, self._config.lanes)
        return msgspec.structs.replace(now, sampled_every_s=self._burst.every_s, read_s=self._burst.read_s)

    async def _sample(self) -> None:
        try:
            reading = await self._source.read_module(self._config.interface)
            self.module = parse_module(reading.memory)
            if self.module.copper:
                raise ProtocolError("a copper cable: it has no light")
            sample = LightSample.of(
                self.module,
                before_ns=reading.before_ns,
                after_ns=reading.after_ns,
                lanes=self._config.lanes,
                dark_dbm=self._config.dark_dbm,
                timing=self._timings.get(self.module.part),
            )
        except (HwdError, OSError) as error:
            self._refused = isinstance(error, RefusedError)
            self._failed(reason_of(error))
        else:
            self._refused = False
            self._took(sample)
            self._tell_monitors(monitors_of(self.module, self._config.lanes), sample)
        says = self.why_not or f"{self.module}; {self.limits()}"
        if says != self._said:
            self._said = says
            self._on_change()
        sampled, self._sampled = self._sampled, None
        if sampled is not None:
            if self._observed and self._tally is None:
                self._tally = Tally(from_ns=self._clock.monotonic_ns(), latched=self._judge.latched, state=self.lit)
                if self.why_not:
                    self._tally.fail(self.why_not)
            if not sampled.done():
                sampled.set_result(None)

    def _failed(self, why: str) -> None:
        if why != self.why_not:
            _log.info("%s: light is unseen: %s", self._name, why)
        self.why_not = why
        self._last_monitors = None  # after the source is back, the birth message has the monitors
        if self._tally is not None:
            self._tally.fail(why)

    def _took(self, sample: LightSample) -> None:
        if self.why_not:
            _log.info("%s: light is seen again", self._name)
            self.why_not = ""
        if self._observed and not self._settled():
            self._burst.look(sample.before_ns, sample.after_ns)
        changes = self._judge.feed(sample)
        for change in changes:
            self._emit(
                change.kind,
                self._name,
                earliest_ns=max(0, change.earliest_ns or 0),
                at_ns=change.at_ns,
                source=SOURCE,
                origin=self._source.note.origin,
                sampling_ns=change.sampling_ns,
                data=LightData(lanes=list(change.lanes), one_sided=True if change.earliest_ns is None else UNSET),
            )
            self._settled_from_s = asyncio.get_running_loop().time() if change.kind == "light" else None
        if self._tally is not None:
            lost = sum(change.kind == "dark" for change in changes)
            self._tally.look(sample.after_ns, self._judge.lit, lost=lost, latched=self._judge.latched)

    def _tell_monitors(self, now: MonitorData, sample: LightSample) -> None:
        """Report the monitors while no port is observed: else only `dark` and `light` may take time.

        The first ones are in the birth message.
        """
        every_s, now_s = self._sampling.monitors_s, asyncio.get_running_loop().time()
        if self._last_monitors is None:
            self._last_monitors, self._last_monitors_s = now, now_s
        elif (
            every_s
            and not self._observed
            and now_s - self._last_monitors_s >= every_s
            and moved(now, self._last_monitors)
        ):
            self._last_monitors, self._last_monitors_s = now, now_s
            self._emit(
                "monitors",
                self._name,
                earliest_ns=sample.before_ns,
                at_ns=sample.after_ns,
                source=SOURCE,
                origin=self._source.note.origin,
                data=now,
            )
