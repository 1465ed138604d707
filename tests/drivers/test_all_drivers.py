"""Every installed driver against its own twin, on all kinds of connection; the table in drivers/README.md."""

import asyncio
import functools
import itertools
from pathlib import Path

import pytest

from hwd_drivers.conformance import (
    Check,
    check_connect_and_disconnect,
    check_garbage,
    check_identity,
    check_move,
    check_wrong_answer,
    checks_for,
)
from hwd_drivers.conformance.bench import TwinUnderTest, twin_bench
from hwd_drivers.conformance.driver_files import file_results, readme_of
from hwd_drivers.conformance.examine import examine, examine_one
from hwd_drivers.conformance.quality import QUALITIES, Outcome, Quality, Result
from hwd_drivers.conformance.quality_table import row, rows_of
from hwd_drivers.core.errors import DeadlineError, LinkError
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices import registry
from hwd_drivers.devices.registry import DriverSpec
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.rough import Way
from hwd_drivers.twins.registry import twin_of

from .stage import Stage

README = Path(__file__).parents[2] / "drivers/README.md"
OURS = [name for name in registry.names() if registry.distribution_of(name) == "hwd-drivers"]
SPECS = [registry.find(name) for name in OURS]
MODELS = [(spec, model) for spec in SPECS for model in spec.models]
IN_VIRTUAL_TIME = [(spec, model) for spec, model in MODELS if not spec.threads]
EXAMINED = [
    (spec, model, way)
    for spec, model in IN_VIRTUAL_TIME
    for way in (Way if model == next(iter(spec.models)) else [Way.WHOLE])
]
FIRST_CLASS = ("calient-", "polatis-", "sonic", "thorlabs-", "ttl")
"""How the names of those begin that must be gold or better."""
pytestmark = pytest.mark.timeout(300)
"""The first test of a driver runs all of its checks: at most 6 s of work, a minute or more on a busy machine."""
BLIND = (
    "cancelled_change",
    "read_by_the_next_session",
    "reset_fails_every_waiter",
    "half_an_answer",
    "wrong_answer",
    "partial_batch",
    "stuck_mirror_is_seen_by_reading_back",
    "change_behind_our_back",
    "trouble_is_an_error_never_a_wrong_answer",
)
"""What can be checked only of a device that can be asked where it is."""


def named(value: object) -> str:
    return value.name if isinstance(value, DriverSpec) else str(value)


@functools.cache
def results_of(driver: str) -> tuple[Result, ...]:
    """Of its first model on all ways, of others on whole connections: the slow test below checks each on all."""
    spec = registry.find(driver)
    first, *others = spec.models
    whole = itertools.product(others, checks_for(Way.WHOLE))
    return (
        *examine(spec, on=[TwinUnderTest.of(spec, first)]),
        *(examine_one(spec, model, Way.WHOLE, check) for model, check in whole),
    )


@pytest.mark.parametrize(("spec", "model", "way"), EXAMINED, ids=named)
def test_a_driver_passes_on_its_twin(spec: DriverSpec, model: str, way: Way) -> None:
    mine = [one for one in results_of(spec.name) if (one.model, one.way) == (model, way)]
    assert len(mine) == len(checks_for(way))
    assert [str(one) for one in mine if one.outcome is Outcome.FAILED] == []


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.threads], ids=named)
def test_a_driver_with_threads_does_the_least_and_reads_byte_by_byte(spec: DriverSpec) -> None:
    """In real time, hence only what is quick; the rest is slow."""
    least = itertools.product(spec.models, [Way.WHOLE], [check_identity, check_connect_and_disconnect])
    rough = itertools.product([*spec.models][:1], [Way.BYTEWISE], [check_move, check_garbage, check_wrong_answer])
    for model, way, check in (*least, *rough):
        result = examine_one(spec, model, way, check)
        assert result.outcome is Outcome.PASSED, str(result)


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("check", checks_for(Way.WHOLE), ids=lambda check: check.__name__)
async def test_a_driver_passes_over_tcp_too(check: Check) -> None:
    """In virtual time; the others, and it too, over memory."""
    stage = Stage("polatis-tl1", dialer=TcpDialer())
    async with twin_bench(
        stage.spec,
        model=stage.model,
        size=stage.size,
        way=Way.WHOLE,
        dialer=stage.dialer,
        clock=stage.clock,
        draws=Draws(7),
        address=stage.address,
    ) as bench:
        await check(bench)
        assert bench.twin is not None
        lit = [end for end in stage.capabilities.ends if bench.twin.mirror.input(end) is not None]
        assert not lit, "the light of a check is off after it"


@pytest.mark.parametrize(("spec", "model"), IN_VIRTUAL_TIME, ids=named)
def test_checks_are_skipped_only_for_missing_abilities(spec: DriverSpec, model: str) -> None:
    capabilities = spec.capabilities(model, spec.sizes.get(model))
    lacks = {
        "denial": twin_of(spec).denial is None,
        "power": not capabilities.monitored,
        "override": not capabilities.blockable,
        "attenuation": not capabilities.attenuated,
        "reports_before": not capabilities.reports_before,
        "moves_in_use": bool(capabilities.elements),
        "atomic_batches": not capabilities.atomic_batches,
        "silence_at_opening": True,  # some send nothing at opening: another test has a silent server for them
        "impossible_state_is_refused": not capabilities.elements
        or any(() in one.states for one in capabilities.elements),
        **dict.fromkeys(BLIND, spec.blind),
    }
    left_out = {
        one.check
        for one in results_of(spec.name)
        if one.model == model and one.way is Way.WHOLE and one.outcome is Outcome.NOT_APPLICABLE
    }
    assert left_out <= {check for check, lacking in lacks.items() if lacking}


class Mute(asyncio.Protocol):
    """Accepts a connection and never sends anything."""


async def reach_mute(stage: Stage) -> None:
    listener = await stage.dialer.listen(Mute, stage.address)
    stage.address = listener.address
    try:
        async with asyncio.timeout(30.0):
            switch = await stage.open()
    except LinkError:
        return
    finally:
        await listener.close()
    if not stage.spec.blind:
        with pytest.raises(DeadlineError):
            await switch.device.read_crossconnects(deadline_s=stage.now_s + 1.0)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if not spec.threads], ids=named)
@pytest.mark.usefixtures("virtual_time")
async def test_opening_a_silent_server_ends(spec: DriverSpec) -> None:
    async with Stage(spec.name) as stage:
        await reach_mute(stage)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.threads], ids=named)
async def test_opening_a_silent_server_ends_in_real_time(spec: DriverSpec) -> None:
    async with Stage(spec.name, dialer=TcpDialer()) as stage:
        await reach_mute(stage)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if not spec.threads and len(spec.models) == 1], ids=named)
def test_the_table_agrees_with_the_checks(spec: DriverSpec) -> None:
    """To renew it: `hwd driver check --all --write`."""
    assert rows_of(README.read_text(encoding="utf-8"))[spec.name] == row(spec, results_of(spec.name))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("spec", SPECS, ids=named)
def test_each_model_of_a_driver_passes_on_all_ways_and_is_in_the_table(spec: DriverSpec) -> None:
    results = [*examine(spec)]
    assert [str(result) for result in results if result.outcome is Outcome.FAILED] == []
    assert rows_of(README.read_text(encoding="utf-8"))[spec.name] == row(spec, results)


@pytest.mark.parametrize("spec", SPECS, ids=named)
def test_the_table_reports_the_files_of_a_driver(spec: DriverSpec) -> None:
    """For those in real time too: the models, the evidence, and no gold without captures and README."""
    rows = rows_of(README.read_text(encoding="utf-8"))
    assert sorted(rows) == sorted(OURS)
    cells = rows[spec.name]
    known = row(spec, [])
    assert (cells[0], cells[1], cells[3]) == (known[0], known[1], known[3])
    missing = [
        each for each in file_results(spec) if each.outcome is Outcome.MISSING and each.needed_for is Quality.GOLD
    ]
    is_gold = QUALITIES.index(Quality(cells[2])) >= QUALITIES.index(Quality.GOLD)
    assert not (missing and is_gold), missing
    assert is_gold or not spec.name.startswith(FIRST_CLASS)
    readme = readme_of(spec)
    assert readme is not None
    text = readme.read_text(encoding="utf-8")
    assert spec.name in text
    assert "thin" in text.lower() or spec.evidence is not registry.Evidence.THIN
