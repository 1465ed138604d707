"""Runs the conformance suite on the switches of a testbed: twins as configured there, and real ones at
their spare ports.
"""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from hwd.cli.output import Output
from hwd.config.run_files.places import daemon_of
from hwd.config.testbed.secrets import resolve
from hwd.daemon.installed_drivers import load
from hwd.daemon.switch_opener import TWIN_LOGIN, opener
from hwd.model.testbed import PortState, Switch, Testbed
from hwd_drivers.conformance import CHECKS
from hwd_drivers.conformance.arrangements import Arrangements
from hwd_drivers.conformance.bench import REAL_GRACE_S, Bench, TwinUnderTest
from hwd_drivers.conformance.driver_files import GlassRun, record_glass
from hwd_drivers.conformance.examine import examine, examine_on
from hwd_drivers.conformance.quality import Outcome, Quality, Result
from hwd_drivers.conformance.session import read_arrangement, soon, texts
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import natural_key
from hwd_drivers.devices.registry import DriverSpec
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.timing import find_timing


def check_rack(spec: DriverSpec, rack: Path, output: Output, *, up_to: Quality, write: bool) -> Iterator[Result]:
    """Every check on every switch of this driver, as they end; with `write` the run of each real one is saved with the
    driver.

    Raises ConfigError where the testbed has no such switch, or too few spare ports on a real one; RefusedError where a
    daemon drives it, or a spare port has a crossconnect.
    """
    testbed = load(rack).require()
    switches = [one for one in testbed.switches.values() if one.driver == spec.name]
    if not switches:
        raise ConfigError(f"{rack}: it has no switch with driver {spec.name}")
    twins = [one for one in switches if one.twin is not None]
    for switch in twins:
        output.note(f"{switch.name}: its twin, {switch.model}, timing {switch.twin and switch.twin.timing}")
    if twins:
        yield from examine(spec, up_to=up_to, on=[_simulated(spec, one) for one in twins])
    for switch in switches:
        if switch.twin is None:
            yield from _on_glass(spec, testbed, switch, output, write=write)


def _simulated(spec: DriverSpec, switch: Switch) -> TwinUnderTest:
    assert switch.twin is not None
    password = switch.login_password
    return TwinUnderTest(
        spec=spec,
        model=switch.model,
        capabilities=switch.capabilities,
        options=spec.options.model_validate(dict(switch.options)),
        timing=find_timing(switch.twin.timing),
        seed=switch.twin.seed,
        twin_options=switch.twin.options,
        user=switch.login_user or TWIN_LOGIN,
        password=TWIN_LOGIN if password is None else resolve(password, environment=os.environ),
    )


def _on_glass(spec: DriverSpec, testbed: Testbed, switch: Switch, output: Output, *, write: bool) -> Iterator[Result]:
    if daemon_of(testbed.name, os.environ) is not None:
        raise RefusedError(f"testbed {testbed.name}: its daemon is up and drives the switches. Stop it first")
    bench = _bench(spec, testbed, switch)
    ends = sorted(bench.arrangements.ends, key=natural_key)
    output.note(f"{switch.name} at {switch.address}: ends {', '.join(ends)}")
    results: list[Result] = []
    with asyncio.Runner() as runner:
        unit = runner.run(_identified(bench, switch))
        for check in CHECKS:
            results.append(runner.run(examine_on(bench, spec.name, switch.model, check)))
            yield results[-1]
    if write and not any(result.outcome is Outcome.FAILED for result in results):
        passed = sum(result.outcome is Outcome.PASSED for result in results)
        on = datetime.fromtimestamp(SystemClock().wall_ns() / 1e9, UTC).date().isoformat()
        run = GlassRun(driver=spec.name, model=switch.model, on=on, unit=unit, passed=passed)
        output.note(f"{switch.name}: written into {record_glass(spec, run)}")


def _bench(spec: DriverSpec, testbed: Testbed, switch: Switch) -> Bench:
    clock = SystemClock()
    open_switch = opener(dialer=TcpDialer(), clock=clock, twin_address=lambda _: None, environment=dict(os.environ))
    spare = [
        end
        for end in switch.capabilities.ends
        if any(
            note.switch == switch.name and note.state is PortState.SPARE and note.port in (end.port, end)
            for note in testbed.port_notes
        )
    ]
    try:
        arrangements = Arrangements.of(switch.capabilities, spare)
    except ConfigError as error:
        example = f"ports: {{{switch.name}.31: {{state: spare}}}}"
        text = f"{switch.name}: spare {error}. Name more as `{example}` in the testbed file"
        raise ConfigError(text) from error
    return Bench(
        open=lambda: open_switch(switch, _no_documents),
        capabilities=switch.capabilities,
        arrangements=arrangements,
        clock=clock,
        blind=spec.blind,
        grace_s=REAL_GRACE_S,
    )


async def _identified(bench: Bench, switch: Switch) -> str:
    """The unit's identity, once the ends that the checks will move are known to be free."""
    device = await bench.open()
    try:
        carried = await read_arrangement(device, bench)
        if carried and not bench.capabilities.elements:
            raise RefusedError(f"{switch.name}: spare ports carry {texts(carried)}. Disconnect them first")
        return str(await device.identify(deadline_s=soon()))
    finally:
        await device.close()


def _no_documents(document: Document) -> None:
    """Documents are not needed: the suite reads the device itself."""
