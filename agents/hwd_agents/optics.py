"""OpticsWatcher: reads modules, fast while their ports are observed, and tells when light went and came."""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Final

from hwd_agents.config import PortConfig, SamplingConfig
from hwd_agents.light import LightJudge, LightSample
from hwd_agents.observation import Observation, Tally
from hwd_agents.outbox import Emit
from hwd_agents.pace import Pace
from hwd_agents.sources.readings import ModuleSource
from hwd_agents.sources.sff8636 import ModuleMemory, parse_memory
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.errors import LinkError, ProtocolError

SOURCE: Final = "module"
_log = logging.getLogger(__name__)


class OpticsWatcher:
    """Events `dark` and `light`. Where the samples of a burst lie is drawn from `phase`: else they would stand at the same time after each command, and many
    reconfigurations would tell no more than one.

    A port that stays lit emits nothing: its Observation says that the light was never away.
    """

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        source: ModuleSource,
        clock: Clock,
        emit: Emit,
        *,
        sampling: SamplingConfig,
        phase: random.Random,
    ) -> None:
        self._source = source
        self._clock = clock
        self._sampling = sampling
        self._ports = {name: _Port(name, port, source, clock, emit, sampling, phase) for name, port in ports.items()}

    async def run(self) -> None:
        """Sample until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, port in self._ports.items():
                group.create_task(port.run(), name=f"hwd:optics/{name}")

    def hurry(self) -> None:
        """Read all modules now."""
        for port in self._ports.values():
            port.hurry()

    async def begin(self, port: str) -> None:
        """Observe a port; returns after its first sample, taken or failed."""
        await self._ports[port].begin()

    def end(self, port: str) -> None:
        """Observe it no more."""
        self._ports[port].end()

    def observation(self, port: str) -> Observation:
        """What was seen of its light since `begin`."""
        return self._ports[port].observation()

    def lit(self, port: str) -> bool | None:
        """Whether there was light at the last sample; None where that is not known."""
        return self._ports[port].lit

    def module(self, port: str) -> ModuleMemory | None:
        """The module as it was read last."""
        return self._ports[port].module

    def why_not(self, port: str) -> str:
        """Why nothing can be told of its light; empty where something can."""
        return self._ports[port].why_not


class _Port:
    def __init__(
        self,
        name: str,
        config: PortConfig,
        source: ModuleSource,
        clock: Clock,
        emit: Emit,
        sampling: SamplingConfig,
        phase: random.Random,
    ) -> None:
        self._phase = phase
        self._burst_begins = False
        self._name = name
        self._config = config
        self._source = source
        self._clock = clock
        self._emit = emit
        self._sampling = sampling
        self._judge = LightJudge()
        self._pace = Pace()
        self._observed = False
        self._tally: Tally | None = None
        self._settled_from_s: float | None = None
        self._sampled: asyncio.Future[None] | None = None
        self.module: ModuleMemory | None = None
        self.why_not = ""

    @property
    def lit(self) -> bool | None:
        return None if self.why_not else self._judge.lit

    async def run(self) -> None:
        while True:
            await self._sample()
            await self._pace.wait(self._every_s())

    def hurry(self) -> None:
        self._pace.hurry()

    async def begin(self) -> None:
        self._observed = self._burst_begins = True
        self._settled_from_s = None
        self._tally = None  # what the first sample finds happened before
        sampled = self._sampled = asyncio.get_running_loop().create_future()
        self._pace.hurry()
        await sampled

    def end(self) -> None:
        self._observed = False
        if self._tally is not None:
            self._tally.end(self._clock.monotonic_ns())

    def observation(self) -> Observation:
        if self._tally is None:
            return Observation(seen=False, why_not=self.why_not or "not observed")
        return self._tally.observation(self._clock.monotonic_ns(), polled=True)

    def _every_s(self) -> float | None:
        """Fast while observed, until light that had gone was back for a while."""
        if not self._observed:
            return self._sampling.light_slow_s or None
        settled = self._settled_from_s
        if settled is not None and asyncio.get_running_loop().time() - settled >= self._sampling.light_settled_s:
            return self._sampling.light_slow_s or None
        fast_s = self._sampling.light_fast_s
        if self._burst_begins and self._tally is not None and not self._pace.hurried:
            self._burst_begins = False
            return self._phase.uniform(0, fast_s)
        return fast_s

    async def _sample(self) -> None:
        try:
            reading = await self._source.read_module(self._config.interface)
            self.module = parse_memory(reading.memory)
            if self.module.copper:
                raise ProtocolError("a copper cable: it has no light")
            sample = LightSample.of(
                self.module,
                before_ns=reading.before_ns,
                after_ns=reading.after_ns,
                lanes=self._config.lanes,
                dark_dbm=self._config.dark_dbm,
            )
        except (LinkError, ProtocolError) as error:
            self._failed(str(error))
        else:
            self._took(sample)
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
        if self._tally is not None:
            self._tally.fail(why)

    def _took(self, sample: LightSample) -> None:
        if self.why_not:
            _log.info("%s: light is seen again", self._name)
            self.why_not = ""
        changes = self._judge.feed(sample)
        for change in changes:
            self._emit(
                change.kind,
                self._name,
                earliest_ns=change.earliest_ns,
                at_ns=change.at_ns,
                source=SOURCE,
                origin=self._source.note.origin,
                sampling_ns=change.sampling_ns,
                data={"lanes": list(change.lanes)},
            )
            self._settled_from_s = asyncio.get_running_loop().time() if change.kind == "light" else None
        if self._tally is not None:
            lost = sum(change.kind == "dark" for change in changes)
            self._tally.look(sample.after_ns, self._judge.lit, lost=lost, latched=self._judge.latched)
