"""Options, markers, fixtures and hooks. Every pytest of the environment loads this file: it imports hwd only on use."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hwd.testing.fixtures import Circuit, Fault, JobOfTest, TimelinesOfTest
    from hwd.testing.lab import Lab
    from hwd.testing.running_lab import RunningLab

NEEDS = ("hosts", "switches", "ports")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hwd", "racks of hosts and optical switches")
    group.addoption("--hwd-testbed", metavar="FILE", help="twins of this testbed in place of two hosts on one switch")
    group.addoption(
        "--hwd-lab",
        metavar="FILE|URL",
        help="the real rack: a testbed file, whose daemon is started where none runs, or a daemon's URL",
    )
    group.addoption(
        "--hwd-leased",
        choices=["fail", "skip"],
        default="fail",
        help="what happens to a test whose ports are leased to somebody else",
    )
    group.addoption(
        "--hwd-artefacts",
        metavar="DIR",
        default="hwd-failures",
        help="where documents, report and logs of failed tests are saved",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hwd_lease(*ports, for_s=600): lease these ports for the test, not all of them")
    config.addinivalue_line(
        "markers",
        f"hwd_needs({', '.join(f'{name}=0' for name in NEEDS)}): skip the test where the rack has less that is up",
    )
    if config.getoption("hwd_lab") and config.getoption("hwd_testbed"):
        raise pytest.UsageError("--hwd-lab is the real rack and --hwd-testbed are twins: name only one of them")


@pytest.fixture(scope="session")
def hwd_running(request: pytest.FixtureRequest) -> "Iterator[RunningLab]":
    """The daemon of the session: with twins that are started for it, or the one of --hwd-lab."""
    from hwd.testing.running_lab import DEFAULT_TESTBED, RunningLab
    from hwd_drivers.core.errors import HwdError

    named = request.config.getoption("hwd_lab")
    try:
        if named is not None:
            running = RunningLab.on_glass(named)
        else:
            running = RunningLab.on_twins(Path(request.config.getoption("hwd_testbed") or DEFAULT_TESTBED))
    except HwdError as error:
        pytest.fail(f"hwd: {error.title}: {error}", pytrace=False)
    yield running
    running.close()


@pytest.fixture
def lab(request: pytest.FixtureRequest, hwd_running: "RunningLab") -> "Iterator[Lab]":
    """The rack, under a lease of this test; crossconnects are restored at its end."""
    from hwd.testing.lab import Lab
    from hwd_drivers.core.errors import HwdError, RefusedError

    try:
        hwd_running.check()
        _check_needs(request, hwd_running)
        made = Lab(hwd_running, test=request.node.nodeid, **_lease(request))
    except RefusedError as error:
        if request.config.getoption("hwd_leased") == "skip":
            pytest.skip(f"hwd: {error}")
        pytest.fail(f"hwd: {error.title}: {error}", pytrace=False)
    except HwdError as error:
        pytest.fail(f"hwd: {error.title}: {error}", pytrace=False)
    request.node.stash[_LAB] = made
    yield made
    why = ""
    try:
        made.end()
    except HwdError as error:
        why = f"{error.title}: {error}"
    if why:  # save now: the fixtures' processes are the source
        request.node.stash[_KEPT] = _keep(request.node, why)
    made.close()
    if why:
        pytest.fail(f"hwd: {why}", pytrace=False)


@pytest.fixture
def circuit(lab: "Lab") -> "Circuit":
    """Makes links or crossconnects for this test: `circuit("h0.eth0 <-> h1.eth0")`."""
    from hwd.testing.fixtures import Circuit

    return Circuit(lab)


@pytest.fixture
def fault(lab: "Lab") -> "Iterator[Fault]":
    """Injects faults into twins: `fault("slow", switch="ocs1", seconds=0.5)`. Skips the test where
    there are no twins.
    """
    from hwd.testing.fixtures import Fault

    if lab.glass and lab.running.twins is False:
        pytest.skip("fault: --hwd-lab has real devices only; faults can only be injected into twins")
    made = Fault(lab)
    yield made
    made.clear()


@pytest.fixture
def job(lab: "Lab") -> "JobOfTest":
    """Runs jobs of the testbed file to their ends: `done = job("train", "--steps", "10")`."""
    from hwd.testing.fixtures import JobOfTest

    return JobOfTest(lab)


@pytest.fixture
def timeline(lab: "Lab") -> "TimelinesOfTest":
    """Timelines of this test: `assert timeline.turnaround_s < 8`."""
    from hwd.testing.fixtures import TimelinesOfTest

    return TimelinesOfTest(lab)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Save the data of a failed test while its processes still run."""
    report = yield
    if report.failed and call.excinfo is not None and _LAB in item.stash:
        if report.when != "teardown":
            item.stash[_KEPT] = _keep(item, call.excinfo.exconly())
        if _KEPT in item.stash:
            report.sections.append(("hwd: kept", item.stash[_KEPT]))
    return report


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """Show the stages of all links below a stage that took too long."""
    for value in (left, right):
        if (table := getattr(value, "hwd_table", None)) is not None:
            return [f"{left!r} {op} {right!r}", *str(table).splitlines()]
    return None


_LAB: "pytest.StashKey[Lab]" = pytest.StashKey()
_KEPT: pytest.StashKey[str] = pytest.StashKey()


def _keep(item: pytest.Item, why: str) -> str:
    from hwd.testing.artefacts import keep

    return keep(item.stash[_LAB], item.config.rootpath / item.config.getoption("hwd_artefacts"), why)


def _lease(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("hwd_lease")
    if marker is None:
        return {}
    if unknown := set(marker.kwargs) - {"for_s"}:
        raise pytest.UsageError(f"hwd_lease: no argument {', '.join(sorted(unknown))}; it takes ports and for_s")
    return {**({"ports": marker.args} if marker.args else {}), **marker.kwargs}


def _check_needs(request: pytest.FixtureRequest, running: "RunningLab") -> None:
    from hwd.testing.lab import counts

    needs: dict[str, int] = {}
    for marker in request.node.iter_markers("hwd_needs"):
        needs |= {name: max(count, needs.get(name, 0)) for name, count in marker.kwargs.items()}
    if unknown := needs.keys() - set(NEEDS):
        raise pytest.UsageError(f"hwd_needs: no argument {', '.join(sorted(unknown))}; it takes {', '.join(NEEDS)}")
    if not needs:
        return
    with running.connect() as client:
        there = counts(client.status())
    less = [f"{there[name]} of {count} {name}" for name, count in needs.items() if there[name] < count]
    if less:
        pytest.skip(f"hwd: the rack has {', '.join(less)} that the test needs")
