"""A campaign of crashes: one rack of twins and one Mosquitto, and a daemon that dies life after life."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from hwd.client import AsyncClient
from hwd.config.run_files.places import DaemonPlace, daemon_of
from hwd.daemon.serve import ServeOptions
from hwd.model.plan_summary import PlanSummary
from hwd.model.reconfiguration import ReconfigurationStatus
from hwd.model.status import Status
from hwd.testing.crashes.dying_daemon import Boundary, Orders, run
from hwd.testing.crashes.outside import Light, Story, light, read_journal, read_records, twice
from hwd.testing.crashes.plan import SWITCHES, Ask, Life, more
from hwd.testing.crashes.rack import NAME, Surroundings, surroundings
from hwd_drivers.core.errors import HwdError, LinkError

WITHIN_S: Final = 30.0
"""For a start, a recovery or an answer; a loaded machine takes a tenth of it."""
POLL_S: Final = 0.01
ASK_ON_S: Final = 0.1
"""Between applies that come after those of a life: a confirm that is waited for is over in 2 s."""
RULES: Final = {
    "one-crossconnect-an-end": "A fibre end of a switch is in at most one crossconnect.",
    "intent-durable": "What a switch changed by our command is in the journal's file.",
    "success-read-back": "What was answered as confirmed or rolled back is so at the switch.",
    "all-or-nothing": "After the recovery each reconfiguration is finished or undone, on all of its switches.",
    "recovered": "A daemon that starts again comes to rest, with nothing left open.",
    "one-story": "Answers, records and journal tell one outcome of a reconfiguration, once.",
    "promise-kept": "A wait for a confirm and a lease that were answered outlive the daemon; a release does too.",
    "no-bug": "No daemon ends by itself, and none logs an error.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRule:
    """A breach of a rule in a life."""

    life: int
    rule: str
    what: str

    def __str__(self) -> str:
        return f"life {self.life}: {self.rule}: {self.what}. The rule: {RULES[self.rule]}"


@dataclass(slots=True)
class Answers:
    """The answers that operators got, over all lives."""

    outcomes: dict[str, str] = field(default_factory=dict)
    """By reconfiguration, its last answer: confirmed, rolled-back, or a state that is none yet.

    One that moves nothing and awaits no confirm is not journaled, and nothing of it is promised over a crash.
    """
    leases: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    in_release: set[str] = field(default_factory=set)
    """Asked to be released, and not answered: may be there or not."""


class DaemonProcess:
    """A daemon in a process of its own, forked from one that has imported all: a start takes a tenth of the time."""

    def __init__(self, orders: Orders) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["hwd.testing.crashes.dying_daemon"])
        self._process = context.Process(target=run, args=(orders,), name=orders.log.stem)
        self._process.start()
        self.log = orders.log

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Negative: the signal that ended it."""
        return self._process.exitcode

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def wait(self) -> int:
        async with asyncio.timeout(WITHIN_S):
            while (code := self.returncode) is None:  # noqa: ASYNC110 - another process: nothing here tells of it
                await asyncio.sleep(POLL_S)
        return code

    async def end(self, number: signal.Signals) -> int:
        if self.returncode is None:
            self.send(number)
        return await self.wait()


class Campaign:
    """Use it as `async with campaign() as one`."""

    def __init__(self, around: Surroundings, *, loses_writes: bool = False) -> None:
        self.broken: list[BrokenRule] = []
        self.died_at: dict[str, int] = {}
        """How often the daemon died where."""
        self._around = around
        self._loses_writes = loses_writes
        self._daemon: DaemonProcess | None = None
        self._answers = Answers()
        self._ended: dict[str, str] = {}
        """Outcomes that the journal had at some time: it forgets them when it begins anew."""
        self._life = -1

    async def live(self, life: Life) -> None:
        """One life of the daemon from its start to its death, with a look from outside at its rest and after it."""
        self._life = life.number
        before = await self._light()
        daemon = self._start(life)
        killer = asyncio.create_task(self._kill(daemon, life)) if life.boundary is None else None
        try:
            status = await self._rest(daemon)
            if status is not None:
                try:
                    before = await self._check_rest(status)
                    await self._ask_all(life.asks)
                    if life.boundary is not None:
                        await self._ask_on(life, daemon)
                except LinkError:  # it died at that
                    async with asyncio.timeout(WITHIN_S):
                        await daemon.wait()
        finally:
            if killer is not None:
                killer.cancel()
                await asyncio.gather(killer, return_exceptions=True)
        how = "at random"
        if daemon.returncode is None:
            await daemon.end(signal.SIGKILL)
        elif life.boundary is not None:
            how = f"{life.boundary}{'' if status is not None else ', in its start'}"
        self.died_at[how] = self.died_at.get(how, 0) + 1
        if daemon.returncode != -signal.SIGKILL:
            self._breach("no-bug", f"the daemon ended with status {daemon.returncode}\n{self._log(daemon)}")
        self._check_log(daemon)
        await self._check_death(before)

    async def finish(self) -> None:
        """A last life without a death: it comes to rest, and stops in order."""
        self._life += 1
        daemon = self._start(Life(number=self._life, boundary=None, asks=()))
        status = await self._rest(daemon)
        if status is not None:
            await self._check_rest(status)
        if (code := await daemon.end(signal.SIGTERM)) != 0:
            self._breach("no-bug", f"the daemon stopped with status {code}\n{self._log(daemon)}")

    async def close(self) -> None:
        """End the daemon that lives, if one does."""
        if self._daemon is not None:
            await self._daemon.end(signal.SIGKILL)

    # --- a life

    def _start(self, life: Life) -> DaemonProcess:
        orders = Orders(
            options=ServeOptions(
                testbed=self._around.testbed,
                data=self._around.data,
                http="127.0.0.1:0",
                mqtt=self._around.mqtt,
                twin=False,
            ),
            run_dir=self._around.environment["HWD_RUN_DIR"],
            log=self._around.folder / f"daemon-{life.number}.log",
            boundary=life.boundary or Boundary.BEFORE_WRITE,
            at=life.at,
            part=life.part,
            loses_writes=self._loses_writes,
        )
        self._daemon = DaemonProcess(orders)
        return self._daemon

    def _place(self, daemon: DaemonProcess) -> DaemonPlace | None:
        """Where this daemon listens; None before it does, and once it is dead."""
        place = daemon_of(NAME, self._around.environment)
        return place if place is not None and place.pid == daemon.pid else None

    async def _kill(self, daemon: DaemonProcess, life: Life) -> None:
        """SIGKILL at the drawn time, from its first word on."""
        journal = self._around.data / "journal"
        while not journal.exists() or not (self._log(daemon) or self._place(daemon)):  # noqa: ASYNC110 - as above
            await asyncio.sleep(POLL_S)
        await asyncio.sleep(life.after_s)
        if daemon.returncode is None:
            daemon.send(signal.SIGKILL)

    async def _rest(self, daemon: DaemonProcess) -> Status | None:
        """Its status when it has come to rest; None where it died before."""
        last: Status | None = None
        try:
            async with asyncio.timeout(WITHIN_S):
                while daemon.returncode is None:
                    await asyncio.sleep(POLL_S)
                    if self._place(daemon) is None:
                        continue
                    try:
                        async with self._client() as client:
                            last = await client.status()
                    except HwdError:
                        continue
                    under_way = [one for one in last.reconfigurations if one.state != "awaiting-confirm"]
                    if all(switch.up for switch in last.switches) and not under_way and not last.open:
                        return last
        except TimeoutError:
            self._breach("recovered", f"not at rest within {WITHIN_S:g} s: {last}\n{self._log(daemon)}")
            return None
        return None

    async def _ask_all(self, asks: Iterable[Ask]) -> None:
        """Raises LinkError when the daemon does not answer any more."""
        together: list[Ask] = []
        for ask in asks:
            together.append(ask)
            if not ask.with_next:
                await self._ask_together(together)
                together = []
        await self._ask_together(together)

    async def _ask_on(self, life: Life, daemon: DaemonProcess) -> None:
        """Ask on until the daemon dies at its write: operators may have been refused, or answered by fewer writes."""
        for ask in more(life.number):
            if daemon.returncode is not None:
                return
            await self._ask_together([ask])
            await asyncio.sleep(ASK_ON_S)

    async def _ask_together(self, asks: Sequence[Ask]) -> None:
        calls = (self._ask(ask, alone=len(asks) == 1) for ask in asks)
        answered = await asyncio.gather(*calls, return_exceptions=True)
        for error in answered:
            if isinstance(error, BaseException):
                raise error

    async def _ask(self, ask: Ask, *, alone: bool) -> None:
        """What is not answered may have come about or not. A refusal is an answer that moved nothing."""
        try:
            async with self._client() as client:
                if ask.lease:
                    await self._lease(client, ask)
                terms = {} if ask.confirm_within_s is None else {"confirm_within_s": ask.confirm_within_s}
                applied = await client.apply(what=ask.what, id=ask.id, **terms)  # type: ignore[arg-type]
                if applied.plan is not None and (terms or not applied.plan.empty):
                    self._answers.outcomes[ask.id] = ""
                self._note(applied)
                if applied.outcome == "confirmed" and applied.plan is not None and alone:
                    await self._check_success(ask.id, applied.plan)
                if ask.then == "confirm":
                    self._note(await client.confirm(ask.id))
                elif ask.then == "roll-back":
                    self._note(await client.roll_back(ask.id))
        except LinkError as error:
            if "switch" not in str(error):
                raise  # it died under us
        except HwdError:
            return  # refused, failed, or too late to be confirmed: what came of it is in journal and records

    async def _lease(self, client: AsyncClient, ask: Ask) -> None:
        taken = await client.take_lease(holder=ask.id, ports=[f"{SWITCHES[0]}.8"], for_s=3600)
        self._answers.leases.add(taken.id)
        self._answers.in_release.add(taken.id)  # from here on it may be gone without an answer
        await client.release_lease(taken.id)
        self._answers.released.add(taken.id)

    def _note(self, answer: ReconfigurationStatus) -> None:
        if answer.id in self._answers.outcomes:
            self._answers.outcomes[answer.id] = answer.outcome or answer.state

    def _client(self) -> AsyncClient:
        return AsyncClient.find(environment=self._around.environment, testbed=NAME)

    # --- what is seen from outside

    async def _light(self) -> Light:
        carried: dict[str, frozenset[str]] = {}
        for switch in SWITCHES:
            said = await light(self._around.rack.addresses[switch])
            if double := twice(said):
                self._breach("one-crossconnect-an-end", f"{switch} has {', '.join(double)} twice: {', '.join(said)}")
            carried[switch] = frozenset(said)
        return carried

    async def _check_success(self, id: str, plan: PlanSummary) -> None:
        """Right after an answer, where nobody else was asked: the switches have what it says, daemon or not."""
        now = await self._light()
        for move in plan.moves:
            missing = sorted({*move.add} - now[move.switch])
            left = sorted(({*move.remove} - {*move.add}) & now[move.switch])
            if missing or left:
                what = ", ".join([*(f"lacks {one}" for one in missing), *(f"still has {one}" for one in left)])
                self._breach("success-read-back", f"{id} was answered as confirmed, and {move.switch} {what}")

    async def _check_death(self, before: Light) -> None:
        """Right after a death: every change since the last rest is in the journal's file."""
        journal_file = self._around.data / "journal"
        journal = read_journal(journal_file) if journal_file.exists() else Story()
        self._take_ends(journal)
        intended = frozenset().union(*(one.removes | one.adds for one in journal.begun.values()))
        for switch, now in (await self._light()).items():
            for one in sorted(now ^ before[switch]):
                if f"{switch}:{one}" not in intended:
                    self._breach("intent-durable", f"{switch} has changed {one}, and no begin of the journal has it")

    async def _check_rest(self, status: Status) -> Light:
        """Once a daemon has come to rest: switches, journal, records and answers agree. Raises LinkError where it has
        died meanwhile.
        """
        journal = read_journal(self._around.data / "journal")
        self._take_ends(journal)
        awaiting = {one.id for one in status.reconfigurations}
        records = await self._records(lambda story: story.ended.keys() >= journal.ended.keys() - awaiting)
        if self._daemon is None or self._daemon.returncode is not None:
            raise LinkError("it died before it wrote its records: those of its next life have to have all of it")
        for id, outcome in self._ended.items():
            said = records.ended.get(id, [])
            if said != [outcome]:
                self._breach(
                    "one-story", f"{id} is {outcome} in the journal, and {said or 'without an end'} in the records"
                )
        for id, answer in self._answers.outcomes.items():
            said = records.ended.get(id, [])
            if answer == "awaiting-confirm":
                if id not in awaiting and not said:
                    self._breach("promise-kept", f"{id} awaited its confirm, and is gone")
            elif said != [answer]:
                outcomes_text = ", ".join(said) or "without an end"
                self._breach("one-story", f"{id} was answered as {answer}, and is {outcomes_text} in the records")
        now = await self._light()
        expected = self._expected(records, awaiting)
        for switch in SWITCHES:
            if now[switch] != expected[switch]:
                what = ", ".join(
                    f"{'+' if one in now[switch] else '-'}{one}" for one in sorted(now[switch] ^ expected[switch])
                )
                there = (await self._status()).reconfigurations
                still = {one.id for one in there if one.state == "awaiting-confirm"}
                if still == awaiting:  # else its time ended between the looks
                    self._breach("all-or-nothing", f"{switch} differs from what was confirmed by {what}")
        await self._check_leases()
        return now

    def _expected(self, records: Story, awaiting: set[str]) -> Light:
        carried: dict[str, set[str]] = {switch: set() for switch in SWITCHES}
        for id, begun in records.begun.items():
            if records.ended.get(id) != ["confirmed"] and id not in awaiting:
                continue
            for one in begun.removes:
                switch, _, crossconnect = one.partition(":")
                carried[switch].discard(crossconnect)
            for one in begun.adds:
                switch, _, crossconnect = one.partition(":")
                carried[switch].add(crossconnect)
        return {switch: frozenset(there) for switch, there in carried.items()}

    async def _check_leases(self) -> None:
        async with self._client() as client:
            held = {one.id for one in await client.leases()}
        for lease in sorted(self._answers.leases - self._answers.in_release - held):
            self._breach("promise-kept", f"lease {lease} was granted, and is gone")
        for lease in sorted(self._answers.released & held):
            self._breach("promise-kept", f"lease {lease} was released, and is there again")
        async with self._client() as client:
            for lease in sorted(held):  # of a release that was not answered
                self._answers.in_release.add(lease)
                await client.release_lease(lease)
                self._answers.released.add(lease)

    async def _records(self, has_come: Callable[[Story], bool]) -> Story:
        """Wait for the records, which are written some 50 ms behind; what has not come within 2 s is not to come."""
        story = Story()
        for _ in range(40):
            story = await read_records(self._around.data / "records.db")
            if has_come(story):
                break
            await asyncio.sleep(0.05)
        return story

    async def _status(self) -> Status:
        async with self._client() as client:
            return await client.status()

    def _take_ends(self, journal: Story) -> None:
        for id, outcomes in journal.ended.items():
            for outcome in outcomes:
                if self._ended.setdefault(id, outcome) != outcome:
                    self._breach("one-story", f"the journal says that {id} is {outcome}, and said {self._ended[id]}")

    def _check_log(self, daemon: DaemonProcess) -> None:
        for line in self._log(daemon).splitlines():
            if " ERROR " in line or line.startswith("Traceback"):
                self._breach("no-bug", f"the daemon logged: {line}")

    def _log(self, daemon: DaemonProcess) -> str:
        return daemon.log.read_text(errors="replace") if daemon.log.exists() else ""

    def _breach(self, rule: str, what: str) -> None:
        self.broken.append(BrokenRule(life=self._life, rule=rule, what=what))


@asynccontextmanager
async def campaign(*, loses_writes: bool = False) -> AsyncIterator[Campaign]:
    """A rack of twins and a Mosquitto, which outlive the daemons. `loses_writes`: see `Orders`."""
    with surroundings() as around:
        one = Campaign(around, loses_writes=loses_writes)
        try:
            yield one
        finally:
            await one.close()
