"""A changed testbed file is taken while the daemon runs, whole or not at all, and what it does not touch goes on."""

import asyncio
import gc
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from hwd.daemon.daemon import Daemon
from hwd.daemon.installed_drivers import load, load_text
from hwd.daemon.reload import READ_S, TestbedFile
from hwd.daemon.retention import EACH_S
from hwd.daemon.seams import Machine, Process, RackAccess, Storage
from hwd.daemon.switch_opener import OpenSwitch, opener
from hwd.fabric.fabric import Fabric
from hwd.model.bodies import (
    EpochBody,
    LeaseBody,
    PlanBody,
    PrepareBody,
    ReconfigurationBody,
    ReloadBody,
    RenewBody,
    RunBody,
    TargetBody,
)
from hwd.model.daemon import DaemonStopped, RecordsDropped, TestbedReloaded
from hwd.model.fault import Fault
from hwd.model.reload import ReloadReport
from hwd.model.request import Caller
from hwd.model.switch import SwitchDrift
from hwd.model.testbed import Switch, Testbed
from hwd.records.records import Records
from hwd.sim.planes import SimPlanes
from hwd.sim.records_disk import RecordsDisk
from hwd.web.service import Service
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.core.offload import InlineOffload, T, Ts
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.facts import SwitchDown, SwitchUp
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.registry import Twin, twin_of
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

NIC = "{module: 100g-lr4, match: {pci: '0000:41:00.0', port: 1}}"
POLATIS = "driver: polatis-tl1, model: polatis-6000, login: {user: a, password: {env: P}}, size: 8x8"
TEXT = f"""\
testbed: desk
switches:
  ocs1: {{{POLATIS}, address: 'unix:/ocs1'}}
  ocs2: {{{POLATIS}, address: 'unix:/ocs2'}}
hosts:
  h0: {{ssh: root@10.0.0.1, nics: {{eth0: {NIC}}}}}
  h1: {{ssh: root@10.0.0.2, nics: {{eth0: {NIC}}}}}
fibres:
  - {{from: h0.eth0, to: ocs1.1, loss_db: 0.4}}
  - h1.eth0 <-> ocs1.2
"""
OCS2 = next(line for line in TEXT.splitlines() if line.startswith("  ocs2"))
FIBRE_2 = "{from: h1.eth0, to: ocs1.2, loss_db: 0.2}"
OCS3 = OCS2.replace("ocs2", "ocs3")
WITH_OCS3 = TEXT.replace("hosts:\n", f"{OCS3}\nhosts:\n")
WITHOUT_OCS2 = TEXT.replace(f"{OCS2}\n", "")
MOVED = TEXT.replace("unix:/ocs2", "unix:/ocs3")
DEARER = TEXT.replace("loss_db: 0.4", "loss_db: 0.9")


class Desk:
    """A daemon on switches at addresses, as real ones are, and its testbed file."""

    def __init__(
        self, daemon: Daemon, documents: list[Document], twins: Mapping[str, Twin], records_disk: RecordsDisk
    ) -> None:
        self.daemon = daemon
        self.twins = twins
        self.documents = documents
        self.text = TEXT
        self.records_disk = records_disk
        self.changed = asyncio.Event()
        self.file_answers = asyncio.Event()
        """Cleared: the file system of the testbed file does not answer."""
        self.file_answers.set()

    @property
    def service(self) -> Service:
        return self.daemon.service

    async def reload(self, *, drain_s: float = 0.0, **more: Any) -> ReloadReport:
        return await self.service.testbed.reload(
            ReloadBody(drain_s=drain_s, **more), Caller(name="ada", is_verified=True)
        )

    async def take(self, text: str, **more: Any) -> list[str]:
        """Reload this text. Its changes."""
        self.text = text
        return [*map(str, (await self.reload(**more)).changes)]

    async def refused(self, **more: Any) -> str:
        with pytest.raises(RefusedError) as refusal:
            await self.reload(**more)
        return str(refusal.value)

    async def apply(self, what: str, **more: Any) -> None:
        await self.service.light.apply(ReconfigurationBody(what=what, **more))

    async def lease(self, *ports: str, for_s: float = 60.0, holder: str = "ada", **more: Any) -> str:
        return (await self.service.leases.take(LeaseBody(ports=[*ports], for_s=for_s, holder=holder, **more))).id

    async def draining(self, text: str = DEARER, *, drain_s: float = 30.0) -> "asyncio.Task[ReloadReport]":
        """A reload that waits for a holder: that of `DEARER` changes ocs1.1 and h0.eth0."""
        self.text = text
        reload = asyncio.create_task(self.reload(drain_s=drain_s))
        await asyncio.sleep(1.0)
        return reload

    async def until_up(self, *switches: str) -> None:
        """Until sessions began with these switches, as often as they are named, since the start."""
        while Counter(switches) - Counter(fact.switch for fact in self.of(SwitchUp)):
            self.changed.clear()
            await self.changed.wait()

    def of(self, *facts: type) -> list[Any]:
        return [document.fact for document in self.documents if isinstance(document.fact, facts)]

    async def crossconnects(self, switch: str) -> tuple[str, ...]:
        return next(one.crossconnects for one in await self.service.rack.switches() if one.switch == switch)


@pytest.fixture
def recorded() -> list[Document]:
    """What the records have before the daemon starts."""
    return []


@pytest.fixture
async def desk(virtual_loop: VirtualLoop, recorded: list[Document], tmp_path: Path) -> AsyncIterator[Desk]:
    """A desk whose switches are up, in virtual time."""
    clock, dialer, draws = VirtualClock(virtual_loop, wall_start_ns=10**18), MemoryDialer(MemoryNet()), Draws(1)
    documents: list[Document] = []
    holder: list[Desk] = []

    def take(document: Document) -> None:
        documents.append(document)
        if holder:
            holder[0].changed.set()

    async def offload(fn: Callable[[*Ts], T], *args: *Ts) -> T:
        async with asyncio.timeout(READ_S):
            await holder[0].file_answers.wait()
            return await InlineOffload()(fn, *args)

    file = TestbedFile(name="desk.yaml", read=lambda: holder[0].text.encode(), load=load, offload=offload)
    testbed = load_text(TEXT, file="desk.yaml").require()
    async with AsyncExitStack() as stack:
        twins = {
            name: await _start_twin(name, testbed, stack, clock=clock, dialer=dialer, draws=draws)
            for name in ("ocs1", "ocs2", "ocs3")
        }
        records_disk = RecordsDisk()
        records = Records("sqlite://", records_disk)
        await records.open()
        await records.add_documents(recorded)
        daemon = Daemon(
            testbed=testbed,
            testbed_text=TEXT,
            machine=Machine(
                clock=clock,
                ids=SeededIds(1),
                draws=draws,
                offload=InlineOffload(),
                plane=SimPlanes(),
                virtual_time=True,
            ),
            storage=Storage(records=records, journal=MemoryDisk(), job_events=MemoryDisk()),
            rack=RackAccess(
                bus=MemoryBus(MemoryBroker(), "daemon", clock), open_switch=_opener(dialer, clock), set_fault=_no_rack
            ),
            process=Process(version="test", data_dir=str(tmp_path), pid=1),
            sinks=(take,),
            testbed_file=file,
        )
        del testbed
        holder.append(Desk(daemon, documents, twins, records_disk))
        await daemon.open()
        running = asyncio.create_task(daemon.run())
        try:
            await holder[0].until_up("ocs1", "ocs2")
            yield holder[0]
        finally:
            running.cancel()
            await asyncio.wait([running])


def _opener(dialer: MemoryDialer, clock: VirtualClock) -> OpenSwitch:
    """Opens a switch at the twin in memory that has the name of its socket."""
    open_at = opener(dialer=dialer, clock=clock, twin_address=lambda name: None, environment={"P": "x"})

    async def open_switch(switch: Switch, sink: Sink) -> Device:
        assert switch.address is not None
        return await open_at(replace(switch, address=switch.address.replace("unix:/", "mem:")), sink)

    return open_switch


async def _start_twin(
    name: str, testbed: Testbed, stack: AsyncExitStack, *, clock: VirtualClock, dialer: MemoryDialer, draws: Draws
) -> Twin:
    switch = testbed.switches["ocs1"]
    twin: Twin = twin_of(registry.find(switch.driver)).make(
        name=name,
        capabilities=switch.capabilities,
        timing=find_timing("ideal"),
        draws=draws,
        clock=clock,
        dialer=dialer,
        address=f"mem:{name}",
        options={},
    )
    await twin.start()
    stack.push_async_callback(twin.close)
    return twin


async def _no_rack(fault: Fault) -> None:
    raise AssertionError("no test sets a fault")


# --- what is taken


async def test_switches_that_come_move_and_go_are_driven_from_then_on_and_the_sessions_of_others_stay(
    desk: Desk,
) -> None:
    assert await desk.take(WITH_OCS3) == ["switch ocs3 added: polatis-6000 8x8 at unix:/ocs3"]
    await desk.until_up("ocs3")
    await desk.apply("ocs3:1A-2B")
    assert (await desk.crossconnects("ocs3")) == ("1A-2B",)
    assert desk.of(SwitchDown) == []
    await desk.take(TEXT)
    await desk.apply("ocs2:3A-4B")
    await desk.apply("ocs1:1A-2B")
    assert await desk.take(MOVED) == ["switch ocs2 changed: address unix:/ocs2 -> unix:/ocs3"]
    await desk.until_up("ocs2", "ocs2")
    await asyncio.sleep(5.0)  # it is read out
    of_ocs1, of_ocs2 = await desk.crossconnects("ocs1"), await desk.crossconnects("ocs2")
    assert (of_ocs1, of_ocs2) == (("1A-2B",), ("1A-2B",)), "those of ocs3"
    assert b'hwd_switch_up{switch="ocs2"} 1.0' in bytes(desk.daemon.metrics.render())
    assert await desk.take(WITHOUT_OCS2) == ["switch ocs2 removed"]
    assert [one.switch for one in (await desk.service.rack.switches())] == ["ocs1"]
    assert b'switch="ocs2"' not in bytes(desk.daemon.metrics.render())
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "hwd:ocs2/supervisor"]
    with pytest.raises(ConfigError, match="is no switch of testbed desk"):
        await desk.service.light.plan(PlanBody(what="ocs2:1A-2B"))
    assert [fact.switch for fact in desk.of(SwitchUp)].count("ocs1") == 1


async def test_a_new_loss_counts_in_the_next_plan_and_what_was_observed_before_goes_on(desk: Desk) -> None:
    async def observations() -> int:
        plan = await desk.service.light.plan(PlanBody(what="ocs1:5A-6B"))
        assert plan.prediction is not None
        return plan.prediction.acknowledged.observations

    await desk.apply("ocs1:3A-4B")
    await asyncio.sleep(1.0)  # its timeline is written
    before = await observations()
    assert before > 0
    dark = TEXT.replace("loss_db: 0.4", "loss_db: 40.0")
    assert await desk.take(dark) == ["fibre h0.eth0 - ocs1.1 changed: loss_db 0.4 -> 40"]
    assert await observations() == before
    plan = await desk.service.light.plan(PlanBody(what="ocs1:1A-2B,2A-1B"))
    (budget,) = [one.state for one in plan.interlocks if one.name == "loss-budget" and "h0" in one.subject]
    assert budget == "refused"


async def test_rules_count_at_once_and_drain_nothing(desk: Desk) -> None:
    await desk.lease("ocs1.1")
    await desk.take(f"{TEXT}leases: {{required: true}}\n")
    with pytest.raises(RefusedError, match="wants a lease for every change"):
        await desk.apply("ocs2:1A-2B")


@pytest.mark.parametrize(
    "recorded", [[Document(at_ns=0, wall_ns=0, fact=DaemonStopped(reason=reason)) for reason in ("first", "second")]]
)
async def test_retention_counts_from_the_next_hour_on(desk: Desk) -> None:
    text = f"{TEXT}retention: {{documents_days: 90}}\n"
    assert await desk.take(text) == ["key retention changed: documents_days none -> 90"]
    assert desk.of(RecordsDropped) == []
    await asyncio.sleep(EACH_S + 1)
    assert [one.documents for one in desk.of(RecordsDropped)] == [1]
    assert b'hwd_records_dropped_total{group="documents"} 1.0' in bytes(desk.daemon.metrics.render())


async def test_a_reload_is_recorded_with_its_changes_and_who_asked_as_soon_as_the_records_take_it(desk: Desk) -> None:
    assert await desk.take(f"# moved\n\n{TEXT}") == []
    assert desk.of(TestbedReloaded) == [], "it says the same in other words"
    desk.text = DEARER
    desk.records_disk.refuse("database or disk is full")
    report = await desk.reload()
    assert report.done
    assert [one.partition(":")[0] for one in report.remarks] == ["this reload is not in the records yet"]
    assert "disk is full" in report.remarks[0]
    assert not (await desk.reload(dry_run=True)).changes, "the testbed of the file is in use"
    desk.records_disk.mend()
    await asyncio.sleep(30.0)
    (told,) = desk.of(TestbedReloaded)
    assert (told.changes, told.by, told.hash) == ([str(report.changes[0])], "ada", report.hash)
    (entry,) = await desk.service.light.history(limit=5)
    assert (entry.outcome, entry.by, entry.verified) == ("reloaded", "ada", True)
    assert "loss_db 0.4 -> 0.9" in entry.what


async def test_after_a_reload_nothing_holds_the_former_testbed(desk: Desk) -> None:
    await desk.apply("ocs1:1A-2B")
    await desk.service.light.plan(PlanBody(what="ocs1:3A-4B"))
    await desk.take(WITH_OCS3.replace("loss_db: 0.4", "loss_db: 0.9"))
    gc.collect()
    beds = [one for one in gc.get_objects() if isinstance(one, Testbed) and one.name == "desk"]
    assert [sorted(one.switches) for one in beds] == [["ocs1", "ocs2", "ocs3"]]
    assert len([one for one in gc.get_objects() if isinstance(one, Fabric) and one.testbed.name == "desk"]) == 1


async def test_what_is_desired_of_a_switch_that_comes_back_is_desired_again(desk: Desk) -> None:
    await desk.apply("ocs2:1A-2B")
    assert (await desk.service.rack.status()).orphans == [], "a switch without any fibre in the file has none"
    await desk.take(WITHOUT_OCS2)
    assert (await desk.service.rack.status()).desired == []
    await desk.take(TEXT)
    (desired,) = (await desk.service.rack.status()).desired
    assert (desired.switch, desired.crossconnects) == ("ocs2", ["1A-2B"])


# --- what is refused, and changes nothing


async def test_a_file_with_errors_or_changed_after_it_was_shown_is_not_taken(desk: Desk) -> None:
    desk.text = TEXT.replace("ocs1.1,", "ocs9.1,").replace("<-> ocs1.2", "<-> ocs1.99")
    with pytest.raises(ConfigError, match=r"(?s)ocs9.*ocs1.99|ocs1.99.*ocs9"):
        await desk.reload()
    assert [one.switch for one in (await desk.service.rack.switches())] == ["ocs1", "ocs2"]
    await desk.apply("ocs1:1A-2B")
    desk.text = DEARER
    shown = await desk.reload(dry_run=True)
    assert (shown.done, desk.of(TestbedReloaded)) == (False, [])
    desk.text = TEXT.replace("loss_db: 0.4", "loss_db: 4.0")
    assert "changed after it was shown" in await desk.refused(hash=shown.hash)


NEVER = {
    ("testbed: desk\n", "testbed: desk\naccess_group: root\n"): "key access_group changed: none -> root",
    ("  h1: {", "  h2: {"): "host h1 removed",
    ("size: 8x8, address: 'unix:/ocs2'", "size: 8x8, owner: h1, address: 'unix:/ocs2'"): (
        "switch ocs2 changed: owner none -> h1"
    ),
    ("fibres:", "interlocks: {rate: {changes: {ocs1: 3}}}\nfibres:"): (
        "key interlocks changed: rate.changes.ocs1 none -> 3"
    ),
}


async def test_what_a_running_daemon_cannot_take_is_refused_by_name_and_another_name_without_advice_to_restart(
    desk: Desk,
) -> None:
    for (old, new), named in NEVER.items():
        desk.text = TEXT.replace(old, new).replace("h1.eth0", "h2.eth0" if "h2" in new else "h1.eth0")
        why = await desk.refused()
        assert named in why
        assert "systemctl restart hwd-desk" in why
    desk.text = TEXT.replace("testbed: desk", "testbed: table")
    why = await desk.refused()
    assert "key testbed changed: desk -> table: the name cannot change while the daemon runs" in why
    assert "Write `testbed: desk` again; or stop this daemon, and start one of the new name" in why
    assert "restart" not in why.lower(), "which would leave the data behind"
    assert (await desk.service.rack.status()).testbed == "desk"
    assert desk.of(TestbedReloaded) == []


async def test_a_lease_on_a_port_that_changes_is_waited_for_and_then_named_with_what_ends_it(desk: Desk) -> None:
    loop = asyncio.get_running_loop()
    await desk.lease("ocs2.1", "h1.eth0")  # ports that stay: it holds nothing up
    lease = await desk.lease("ocs1.1")
    desk.text = DEARER
    why = await desk.refused()
    assert f"ocs1.1: leased to ada ({lease}) for another 60 s. It ends then; before, ada may release it" in why
    assert [*re.findall(r"--[a-z-]+", why)] == ["--drain-within"], "reload has no other option that helps"
    began_s = loop.time()
    assert "ocs1.1: leased to ada" in await desk.refused(drain_s=5.0)
    assert 5.0 <= loop.time() - began_s < 5.2
    assert desk.of(TestbedReloaded) == []
    waiting = await desk.draining()
    await asyncio.sleep(2.0)
    await desk.service.leases.release(lease, EpochBody())
    assert 3.0 <= (await waiting).drained_s < 3.3


async def held_off(desk: Desk) -> list[str]:
    """What new claims on h0.eth0 are refused with: a lease, the queue, a reservation, an apply, a run."""
    service, at_ns = desk.service, 10**18 + 3600 * 10**9
    body = LeaseBody(ports=["h0.eth0"], for_s=5.0, holder="bob")
    text = "playbook: one\nshows: nothing\nsteps:\n  - lease: {ports: [h0.eth0], for_s: 5}\n"
    ways: list[Callable[[], Any]] = [
        partial(service.leases.take, body),
        partial(service.leases.take, structs.replace(body, queue=True)),
        partial(service.leases.take, structs.replace(body, at_wall_ns=at_ns)),
        partial(desk.apply, "ocs1:1A-5B"),
        partial(service.runs.start, RunBody(text=text, file="one.yaml")),
    ]
    found = []
    for way in ways:
        with pytest.raises(RefusedError) as refusal:
            await way()
        found.append(str(refusal.value))
    return found


def _prepare(desk: Desk, lease: str) -> Coroutine[Any, Any, Any]:
    return desk.service.sets.prepare(PrepareBody(targets={"a": TargetBody(what="ocs1:1A-6B")}, lease=lease))


async def test_nobody_begins_anew_on_ports_that_a_reload_waits_for(desk: Desk) -> None:
    await desk.lease("ocs1.3", holder="eve")
    lease = await desk.lease("ocs1.1", for_s=20.0, heartbeat_s=15.0)
    reload = await desk.draining()
    for text in await held_off(desk):
        assert "held off by a reload of desk.yaml by ada, which waits until 2001-09-09 01:47" in text
    with pytest.raises(RefusedError, match=r"cannot last until then: .*held off by a reload"):
        await desk.service.leases.renew(lease, RenewBody(for_s=600.0))
    await desk.service.leases.heartbeat(lease, EpochBody())
    for call in (desk.apply("ocs1:1A-6B", lease=lease), _prepare(desk, lease)):
        with pytest.raises(RefusedError, match="held off by a reload"):
            await call
    await desk.apply("ocs2:1A-2B")
    assert desk.service.leases.requests() == []
    assert desk.service.rack.ready().ready
    assert 15.9 < (await reload).drained_s < 16.5, "ada was heard at 1 s, and fell silent"
    await desk.lease("h0.eth0", "ocs1.1", holder="bob")


async def test_all_is_as_before_once_a_reload_gives_up_or_is_cancelled(desk: Desk) -> None:
    await desk.lease("ocs1.1", for_s=600.0)
    reload = await desk.draining(drain_s=5.0)
    with pytest.raises(RefusedError, match="not taken within 5 s"):
        await reload
    await desk.service.leases.release(await desk.lease("h0.eth0", holder="bob"), EpochBody())
    reload = await desk.draining()
    reload.cancel()
    await asyncio.gather(reload, return_exceptions=True)
    await desk.lease("h0.eth0", holder="bob")


async def test_a_reload_says_which_lit_link_it_hides_and_the_status_names_what_is_left_of_it(desk: Desk) -> None:
    """The light goes on; only nobody would see it any more."""
    await desk.apply("h0.eth0<->h1.eth0")
    status = await desk.service.rack.status()
    assert ([one.link for one in status.lit], status.orphans) == (["h0.eth0<->h1.eth0"], [])
    desk.text = TEXT.replace("  - h1.eth0 <-> ocs1.2\n", "")
    shown = await desk.reload(dry_run=True)
    lit = "link h0.eth0<->h1.eth0 is lit over ocs1:1A-2B, ocs1:2A-1B, and the file has no fibres for it any more"
    assert [one.startswith(lit) for one in shown.hides] == [True]
    assert (await desk.reload()).hides == shown.hides
    assert (await desk.crossconnects("ocs1")) == ("1A-2B", "2A-1B"), "a reload moves no switch"
    status = await desk.service.rack.status()
    assert (status.lit, status.orphans) == ([], ["ocs1:1A-2B", "ocs1:2A-1B"])
    desk.text = TEXT
    assert (await desk.reload()).hides == []
    status = await desk.service.rack.status()
    assert ([one.link for one in status.lit], status.orphans) == (["h0.eth0<->h1.eth0"], [])


async def test_a_reload_that_adds_one_job_names_that_job_alone(desk: Desk) -> None:
    def job(name: str, more: str = "") -> str:
        return f"  {name}: {{command: [/srv/{name}.py], user: lab, hosts: [h0, h1], plane: static{more}}}\n"

    before = f"{TEXT}jobs:\n" + "".join(job(f"train{number}") for number in range(12))
    assert len(await desk.take(before)) == 12
    added = "job probe added: 2 ranks of /srv/probe.py as lab, plane static"
    assert await desk.take(before + job("probe")) == [added]
    (newest, *_) = await desk.service.light.history(limit=1)
    assert newest.what == f"testbed file: {added}"
    changed = before.replace(job("train3"), job("train3", " topology=ring"))
    assert await desk.take(changed) == ["job probe removed", "job train3 changed: plane.topology none -> ring"]


async def test_a_second_reload_is_refused_while_one_reads_its_file_which_has_its_time(desk: Desk) -> None:
    desk.file_answers.clear()
    first = asyncio.create_task(desk.reload())
    await asyncio.sleep(1.0)
    for more in ({"dry_run": True}, {"drain_s": 5.0}):
        assert "a reload by ada is under way" in await desk.refused(**more)
    desk.file_answers.set()
    assert (await first).done
    desk.file_answers.clear()
    with pytest.raises(ConfigError, match=r"desk\.yaml: cannot be read: not within 20 s"):
        await desk.reload()
    desk.file_answers.set()
    assert (await desk.reload()).done


@pytest.mark.parametrize("reads", [True, False], ids=["while it reads", "while it waits for a holder"])
async def test_the_end_of_the_daemon_refuses_a_reload_and_does_not_wait_for_it(desk: Desk, reads: bool) -> None:
    if reads:
        desk.file_answers.clear()
    await desk.lease("ocs1.1", for_s=600.0)
    reload = await desk.draining(drain_s=600.0)
    ended_s = asyncio.get_running_loop().time()
    desk.daemon.reloads.stop()
    with pytest.raises(RefusedError, match="the daemon ends, and nothing was changed"):
        await reload
    assert asyncio.get_running_loop().time() - ended_s < 0.2
    assert "the daemon ends" in await desk.refused()


async def test_who_waited_before_a_reload_is_served_and_ways_back_are_not_held_off(desk: Desk) -> None:
    await desk.apply("ocs1:1A-5B", confirm_within_s=10.0)
    ben = await desk.lease("ocs1.1", for_s=8.0, holder="ben", queue=True)
    reload = await desk.draining(drain_s=60.0)
    await asyncio.sleep(10.0)
    assert (await desk.crossconnects("ocs1")) == (), "not confirmed: it went back at its time"
    assert (await desk.service.leases.heartbeat(ben, EpochBody())).holder == "ben"
    assert [one.lease for one in desk.service.leases.leases()] == [ben]
    assert (await reload).done


async def test_drift_is_restored_while_a_reload_waits(desk: Desk) -> None:
    restoring = f"{TEXT}drift: restore\n"
    await desk.take(restoring)
    await desk.apply("ocs1:1A-5B")
    await desk.lease("ocs1.2", for_s=600.0)
    text = restoring.replace("loss_db: 0.4", "loss_db: 0.9").replace("h1.eth0 <-> ocs1.2", FIBRE_2)
    reload = await desk.draining(text, drain_s=120.0)
    with pytest.raises(RefusedError, match="held off by a reload"):
        await desk.apply("ocs1:1A-6B")
    desk.twins["ocs1"].faults.panel([Crossconnect.parse("1A-5B")], [])
    await asyncio.sleep(90.0)
    assert not reload.done()
    assert desk.of(SwitchDrift)
    assert (await desk.crossconnects("ocs1")) == ("1A-5B",)
    reload.cancel()
    await asyncio.gather(reload, return_exceptions=True)


async def test_a_baseline_comes_back_while_a_reload_waits(desk: Desk) -> None:
    with_baseline = f"{TEXT}leases: {{baseline: true}}\n"
    await desk.take(with_baseline)
    await desk.apply("ocs1:1A-5B")
    lease = await desk.lease("ocs1.1", "ocs1.5", "ocs1.6", "h0.eth0", for_s=600.0)
    await desk.apply("ocs1:1A-6B", lease=lease)
    reload = await desk.draining(with_baseline.replace("loss_db: 0.4", "loss_db: 0.9"), drain_s=60.0)
    await desk.service.leases.release(lease, EpochBody())
    assert (await reload).drained_s < 10.0
    assert (await desk.crossconnects("ocs1")) == ("1A-5B",)


async def test_a_wait_for_a_confirm_holds_its_switch_alone_and_survives_a_reload_and_a_refusal(desk: Desk) -> None:
    await desk.apply("ocs1:3A-4B", confirm_within_s=30.0)
    await desk.take(MOVED)
    await asyncio.sleep(31.0)
    assert (await desk.crossconnects("ocs1")) == (), "not confirmed: it went back, at its time"
    await desk.until_up("ocs2", "ocs2")
    await desk.apply("ocs2:1A-2B", confirm_within_s=30.0)
    desk.text = TEXT
    assert "reconfiguration" in await desk.refused(drain_s=1.0)
    assert (await desk.crossconnects("ocs2")) == ("1A-2B",)
    assert (await desk.reload(drain_s=60.0)).drained_s > 25.0, "it was rolled back in time, and then taken"


async def test_a_part_that_raises_brings_all_parts_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fabric: Fabric) -> None:
        if "ocs3" in fabric.testbed.switches:
            raise KeyError("a bug")

    monkeypatch.setattr(desk.daemon.metrics, "use_testbed", fail)  # all other parts have it by then
    desk.text = WITH_OCS3
    with pytest.raises(KeyError):
        await desk.reload()
    assert [one.switch for one in (await desk.service.rack.switches())] == ["ocs1", "ocs2"]
    assert len(desk.of(SwitchUp)) == 2
    await desk.apply("ocs1:1A-2B")
