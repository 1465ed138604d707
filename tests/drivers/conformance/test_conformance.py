"""The conformance suite fails drivers that are wrong: each here has one fault of a kind that drivers have had.

Among them are those that break on arbitrary bytes, store without limit or state capabilities that are not there.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwd_drivers import conformance
from hwd_drivers.conformance import Check, ConformanceError
from hwd_drivers.conformance.arrangements import Arrangements
from hwd_drivers.conformance.bench import Bench, twin_bench
from hwd_drivers.conformance.examine import examine, examine_one
from hwd_drivers.conformance.quality import Outcome, Quality, Result
from hwd_drivers.core.errors import ConfigError, DeviceError, LinkError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities, CrossconnectReading, Exchange, Identity, PortSide
from hwd_drivers.devices.abilities import CrossConnects, Device
from hwd_drivers.devices.registry import DriverSpec, OpenContext, find
from hwd_drivers.scaffold import lumen
from hwd_drivers.scaffold.lumen import protocol
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.rough import Way
from hwd_drivers.twins.faults import Faults
from hwd_drivers.twins.registry import Twin
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

from ...answers import check_answers


class Wrong:
    """A driver around a right one; subclasses are wrong in one way."""

    def __init__(self, inner: Device) -> None:
        assert isinstance(inner, CrossConnects)
        self.name = inner.name
        self.device: Device = inner
        self.switch: CrossConnects = inner

    async def identify(self, *, deadline_s: float) -> Identity:
        return await self.device.identify(deadline_s=deadline_s)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        return await self.device.capabilities(deadline_s=deadline_s)

    async def lost(self) -> Exception:
        return await self.device.lost()

    async def close(self) -> None:
        await self.device.close()

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        return await self.switch.read_crossconnects(deadline_s=deadline_s)

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        return await self.switch.change_crossconnects(**asked)


class Swallows(Wrong):
    """Takes a no for a yes, and does not say when it commanded."""

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        asked.pop("on_commanded", None)
        try:
            return await self.switch.change_crossconnects(**asked)
        except DeviceError:
            return Exchange(commanded_ns=0, acknowledged_ns=0, commands=1)


class Remembers(Wrong):
    """Reads what was asked for, not what is there."""

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        exchange = await self.switch.change_crossconnects(**asked)
        self.asked = tuple(CrossconnectReading(crossconnect=pair) for pair in asked["add"])
        return exchange

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        if hasattr(self, "asked"):
            return self.asked
        return await self.switch.read_crossconnects(deadline_s=deadline_s)


class Patient(Wrong):
    """Waits longer than it may."""

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        return await self.switch.read_crossconnects(deadline_s=deadline_s + 1)


class Busy(Wrong):
    """Begins its exchange later than it was asked, as on a busy machine."""

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        await asyncio.sleep(0.004)
        return await self.switch.read_crossconnects(deadline_s=deadline_s)


class Empty(Wrong):
    """Takes a lost connection for a switch without crossconnects."""

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        try:
            return await self.switch.read_crossconnects(deadline_s=deadline_s)
        except LinkError:
            return ()


class Caches(Wrong):
    """Reads once, and knows it all from then on."""

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        if not hasattr(self, "known"):
            self.known = await self.switch.read_crossconnects(deadline_s=deadline_s)
        return self.known

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        exchange = await self.switch.change_crossconnects(**asked)
        self.known = await self.switch.read_crossconnects(deadline_s=asked["deadline_s"])
        return exchange


class Hurries(Wrong):
    """Reports that a change is done before the device has acknowledged it."""

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        exchange = await self.switch.change_crossconnects(**asked)
        return replace(exchange, acknowledged_ns=exchange.commanded_ns)


class Nameless(Wrong):
    """Tells of a no without the device's own words."""

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        try:
            return await self.switch.change_crossconnects(**asked)
        except DeviceError as error:
            raise DeviceError("it did not work", device=error.device, command=error.command, code="", text="") from None


class Undying(Wrong):
    """Does not tell that its session is gone."""

    async def lost(self) -> Exception:
        await asyncio.Event().wait()
        raise AssertionError


class Forgetful(Wrong):
    """Tells nothing of what the switch had before."""

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        exchange = await self.switch.change_crossconnects(**asked)
        return replace(exchange, before=())


class Anyhow(Wrong):
    """Lets an element into no state of it."""

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        try:
            return await self.switch.change_crossconnects(**asked)
        except RefusedError:
            return Exchange(commanded_ns=0, acknowledged_ns=0, commands=1)


class DeafTwin:
    """A twin that ignores its faults."""

    def __init__(self, inner: Twin, faults: Faults) -> None:
        self.mirror = inner.mirror
        self.faults = faults
        self.addresses = inner.addresses
        self.start = inner.start
        self.close = inner.close


def run(check: Check, way: Way, change: Callable[[Bench], Bench], spec: DriverSpec = lumen.driver) -> str | None:
    """The check on a changed bench of the driver's first model."""

    async def main() -> str | None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        model = next(iter(spec.models))
        async with twin_bench(
            spec,
            model=model,
            size=spec.sizes.get(model),
            way=way,
            dialer=MemoryDialer(MemoryNet()),
            clock=VirtualClock(loop, wall_start_ns=0),
            draws=Draws(7),
        ) as bench:
            return await check(change(bench))

    return run_virtual(main())


def by(wrong: type[Wrong]) -> Callable[[Bench], Bench]:
    """A bench whose driver is wrong in this way."""

    def wrapped(bench: Bench) -> Bench:
        async def open_wrong() -> Device:
            return wrong(await bench.open())

        return replace(bench, open=open_wrong)

    return wrapped


def failure(asked: str) -> str:
    wrong, check, way = asked.split()
    with pytest.raises((ConformanceError, TimeoutError)) as found:
        run(getattr(conformance, check), Way[way], by(globals()[wrong]))
    return re.sub(r"(acknowledged_ns)=\d+", r"\1=N", f"{found.type.__name__}: {found.value}".rstrip())


def test_a_wrong_driver_fails() -> None:
    check_answers(Path(__file__).with_name("wrong_drivers.txt"), {"driver, check and way": failure})


def test_an_element_without_a_state_is_found() -> None:
    with pytest.raises(ConformanceError, match="leaves no state of its element"):
        run(conformance.check_impossible_state_is_refused, Way.WHOLE, by(Anyhow), find("thorlabs-osw"))


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_a_driver_in_a_wrapper_that_is_right_passes(check: Check) -> None:
    run(check, Way.WHOLE, by(Wrong))


def test_a_twin_that_ignores_a_fault_is_found() -> None:
    """Else a check of a fault that never came would pass."""

    def deaf(bench: Bench) -> Bench:
        assert bench.twin is not None
        return replace(bench, twin=DeafTwin(bench.twin, Faults(mirror=bench.twin.mirror, clock=bench.clock)))

    with pytest.raises(ConformanceError, match="ignored partial_next"):
        run(conformance.check_partial_batch, Way.WHOLE, deaf)


def test_a_matrix_and_elements_are_arranged_alike_and_too_few_ends_are_refused() -> None:
    for spec in (lumen.driver, find("thorlabs-osw")):
        for model in spec.models:
            made = Arrangements.of(spec.capabilities(model, spec.sizes.get(model)))
            assert made.one not in (made.rest, made.other)
            assert made.full != made.moved
            assert made.stuck_full != made.full
            assert {end for one in (made.rest, made.full, made.moved) for pair in one for end in pair.ends} <= made.ends
    capabilities = lumen.driver.capabilities("lumen-matrix", "8x8")
    with pytest.raises(ConfigError, match="two crossconnects must have room"):
        Arrangements.of(capabilities, [PortSide.parse("1A"), PortSide.parse("1B")])


MODEL = "lumen-matrix"
SPEC = lumen.driver


def checked(check: Check, spec: DriverSpec = SPEC) -> Result:
    return examine_one(spec, MODEL, Way.WHOLE, check)


def stating(change: Callable[[Capabilities], Capabilities]) -> DriverSpec:
    """A driver that passes, with another statement of what its device does."""
    return replace(SPEC, models={MODEL: lambda size: change(SPEC.models[MODEL](size))})


def test_moves_in_use_of_a_device_that_refuses_and_a_typical_loss_over_the_greatest_are_found() -> None:
    found = checked(conformance.check_moves_in_use, stating(lambda known: replace(known, moves_in_use=True)))
    assert found.outcome is Outcome.FAILED
    assert re.search("moves_in_use=True; .* which was refused", found.text)
    found = checked(conformance.check_capabilities, stating(lambda known: replace(known, loss_db_typical=2.5)))
    assert found.outcome is Outcome.FAILED
    assert found.text == "loss_db_typical=2.5, loss_db_max=2: not 0 <= typical <= max"


class OneByOne(Wrong):
    """Sends one command for each crossconnect, to a device that takes lists, and states that lists are done whole."""

    async def change_crossconnects(self, **asked: Any) -> Exchange:
        one_each = [*(((pair,), ()) for pair in asked["remove"]), *(((), (pair,)) for pair in asked["add"])]
        done = [
            await self.switch.change_crossconnects(remove=gone, add=made, deadline_s=asked["deadline_s"])
            for gone, made in one_each
        ]
        return done[-1]


def test_a_list_that_is_done_in_part_is_not_atomic() -> None:
    async def open_one_by_one(context: OpenContext) -> Device:
        return OneByOne(await SPEC.open(context))

    found = checked(conformance.check_atomic_batches, replace(SPEC, open=open_one_by_one))
    assert found.outcome is Outcome.FAILED
    assert re.search(
        r"atomic_batches=True; .*5A-5B is not of this switch|atomic_batches=True; .* it made 1A-1B", found.text
    )


class Around:
    """Answers for another device by `__getattr__`, as a tracer does; its own check has no words."""

    def __init__(self, inner: Device, *, most: int) -> None:
        self._inner = inner
        self._most = most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def identify(self, *, deadline_s: float) -> Identity:
        found = await self._inner.identify(deadline_s=deadline_s)
        if len(found.model) > self._most:
            raise LookupError
        return found


@pytest.mark.parametrize(("most", "text"), [(99, ""), (1, "LookupError: raise LookupError at test_conformance.py:")])
def test_a_device_around_another_has_its_abilities_and_a_check_of_its_own_is_found_with_its_line(
    most: int, text: str
) -> None:
    async def open_around(context: OpenContext) -> Device:
        return Around(await SPEC.open(context), most=most)

    found = checked(conformance.check_identity, replace(SPEC, open=open_around))
    assert found.outcome is (Outcome.FAILED if text else Outcome.PASSED), found.text
    assert found.text.startswith(text)


def test_what_a_driver_makes_without_all_of_a_device_is_named_with_what_it_lacks() -> None:
    class Deaf:
        name = "ocs1"

        async def close(self) -> None: ...

    async def open_deaf(context: OpenContext) -> Device:
        return Deaf()  # type: ignore[return-value]

    found = checked(conformance.check_identity, replace(SPEC, open=open_deaf))
    assert found.outcome is Outcome.FAILED
    assert found.text == "BugError: ocs1: its driver made a Deaf, which has no identify, capabilities, lost"


def test_a_foreign_exception_of_a_codec_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(word: str) -> tuple[int, int]:
        entry, _, exit = word.partition(">")
        return int(entry), int(exit)

    monkeypatch.setattr(protocol, "read_pair", hasty)
    found = checked(conformance.check_arbitrary_bytes)
    assert found.outcome is Outcome.FAILED
    assert "uncaught: ValueError: invalid literal for int()" in found.text


def test_an_answer_that_is_stored_without_a_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "LINE_MAX", 1 << 40)
    found = checked(conformance.check_endless_answer)
    assert found.outcome is Outcome.FAILED
    assert re.search(r"it holds \d{7,} bytes, allowed 6291456\. Limit what is buffered", found.text)


def test_the_right_driver_passes_them_all_and_a_limit_is_what_was_left_when_the_exchange_began() -> None:
    for check in (
        conformance.check_moves_in_use,
        conformance.check_atomic_batches,
        conformance.check_arbitrary_bytes,
        conformance.check_endless_answer,
    ):
        found = checked(check)
        assert found.outcome is Outcome.PASSED, str(found)
    run(conformance.check_deadline, Way.WHOLE, by(Busy))


def test_a_bug_of_a_twin_is_printed_once_and_named_in_each_check_that_it_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def divide(twin: object, command: str) -> tuple[bytes, float]:
        raise ZeroDivisionError("a bug of the twin")

    monkeypatch.setattr("hwd_drivers.scaffold.lumen.twin.LumenTwin.answer", divide)
    caplog.set_level(logging.ERROR)
    results = [each for each in examine(SPEC, up_to=Quality.BRONZE) if each.way is not None]
    named = [each for each in results if "uncaught: ZeroDivisionError: a bug of the twin at test_" in each.text]
    assert len(named) > 5
    assert {each.outcome for each in named} == {Outcome.FAILED}
    assert len([record for record in caplog.records if "ZeroDivisionError" in record.message]) == 1
    assert [record for record in caplog.records if "Fatal error" in record.message] == []
