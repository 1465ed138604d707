"""The suite finds drivers that break on arbitrary bytes, store without limit or state capabilities that are not there.

It also names uncaught exceptions, and prints each once.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hwd_drivers import conformance
from hwd_drivers.conformance import Check
from hwd_drivers.conformance.examine import examine, examine_one
from hwd_drivers.conformance.quality import Outcome, Quality, Result
from hwd_drivers.core.values import Capabilities, Exchange, Identity
from hwd_drivers.devices.abilities import CrossConnects, Device
from hwd_drivers.devices.registry import DriverSpec, OpenContext
from hwd_drivers.scaffold import lumen
from hwd_drivers.scaffold.lumen import protocol
from hwd_drivers.transports.rough import Way

MODEL = "lumen-matrix"
SPEC = lumen.driver


def checked(check: Check, spec: DriverSpec = SPEC) -> Result:
    return examine_one(spec, MODEL, Way.WHOLE, check)


def stating(change: Callable[[Capabilities], Capabilities]) -> DriverSpec:
    """A driver that passes, with another statement of what its device does."""
    return replace(SPEC, models={MODEL: lambda size: change(SPEC.models[MODEL](size))})


def test_moves_in_use_of_a_device_that_refuses_is_found() -> None:
    found = checked(conformance.check_moves_in_use, stating(lambda known: replace(known, moves_in_use=True)))
    assert found.outcome is Outcome.FAILED
    assert re.search("moves_in_use=True; .* which was refused", found.text)


def test_a_typical_loss_over_the_greatest_is_found() -> None:
    found = checked(conformance.check_capabilities, stating(lambda known: replace(known, loss_db_typical=2.5)))
    assert found.outcome is Outcome.FAILED
    assert found.text == "loss_db_typical=2.5, loss_db_max=2: not 0 <= typical <= max"


class OneByOne:
    """Sends one command for each crossconnect, to a device that takes lists, and states that lists are done whole."""

    def __init__(self, inner: Device) -> None:
        assert isinstance(inner, CrossConnects)
        self.name = inner.name
        self.device: Device = inner
        self.switch: CrossConnects = inner
        self.identify: Callable[..., object] = inner.identify
        self.capabilities: Callable[..., object] = inner.capabilities
        self.lost = inner.lost
        self.close = inner.close
        self.read_crossconnects = inner.read_crossconnects

    async def change_crossconnects(self, *, deadline_s: float, **asked: Any) -> Exchange:
        one_each = [*(((pair,), ()) for pair in asked["remove"]), *(((), (pair,)) for pair in asked["add"])]
        done = [
            await self.switch.change_crossconnects(remove=gone, add=made, deadline_s=deadline_s)
            for gone, made in one_each
        ]
        return done[-1]


def test_a_list_that_is_done_in_part_is_not_atomic() -> None:
    async def open_one_by_one(context: OpenContext) -> Device:
        return OneByOne(await SPEC.open(context))  # type: ignore[return-value]

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


@pytest.mark.parametrize(
    ("most", "text"), [(99, ""), (1, "LookupError: raise LookupError at test_conformance_bytes.py:")]
)
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

    monkeypatch.setattr(protocol, "_pair", hasty)
    found = checked(conformance.check_arbitrary_bytes)
    assert found.outcome is Outcome.FAILED
    assert "uncaught: ValueError: invalid literal for int()" in found.text


def test_an_answer_that_is_stored_without_a_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "LINE_MAX", 1 << 40)
    found = checked(conformance.check_endless_answer)
    assert found.outcome is Outcome.FAILED
    assert re.search(r"it holds \d{7,} bytes, allowed 6291456\. Limit what is buffered", found.text)


def test_the_right_driver_passes_them_all() -> None:
    for check in (
        conformance.check_moves_in_use,
        conformance.check_atomic_batches,
        conformance.check_arbitrary_bytes,
        conformance.check_endless_answer,
    ):
        found = checked(check)
        assert found.outcome is Outcome.PASSED, str(found)


def test_a_bug_of_a_twin_is_printed_once_and_named_in_each_check_that_it_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def divide(line: str) -> protocol.Request:
        raise ZeroDivisionError("a bug of the twin")

    monkeypatch.setattr(protocol, "parse_request", divide)
    caplog.set_level(logging.ERROR)
    results = [each for each in examine(SPEC, up_to=Quality.BRONZE) if each.way is not None]
    named = [each for each in results if "uncaught: ZeroDivisionError: a bug of the twin at test_" in each.text]
    assert len(named) > 5
    assert {each.outcome for each in named} == {Outcome.FAILED}
    assert len([record for record in caplog.records if "ZeroDivisionError" in record.message]) == 1
    assert [record for record in caplog.records if "Fatal error" in record.message] == []
