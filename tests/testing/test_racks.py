"""Racks that sessions of tests start themselves, in processes of their own."""

import getpass
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd.testing.running_lab import DEFAULT_TESTBED

EXAMPLES = Path(__file__).parents[2] / "examples"
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
WITHIN_S = 60


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester) -> Path:
    """Run and data directories of the session inside."""
    for name in [name for name in os.environ if name.startswith("HWD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HWD_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pytester.makeini(INI)
    return tmp_path


@pytest.mark.slow
def test_a_session_has_a_rack_of_its_own_that_goes_with_it(places: Path, pytester: pytest.Pytester) -> None:
    """Its daemon is not in the user's run directory: `hwd status` beside it means another one."""
    pytester.makepyfile("""
        import json, os
        from hwd.config.run_files.places import daemon_of, rack_of

        def test_one(lab, circuit, timeline, fault):
            environment = lab.running.environment
            assert os.environ["HWD_RUN_DIR"] != environment["HWD_RUN_DIR"]
            pids = [daemon_of("pytest", environment).pid, rack_of("pytest", environment).pid]
            open("said", "w").write(json.dumps([pids, environment["HWD_RUN_DIR"]]))
            circuit("h0.eth0 <-> h1.eth0")
            assert timeline.turnaround_s < 5

        def test_two(lab):
            assert lab.status().links == {}
    """)
    result = pytester.runpytest_subprocess(timeout=WITHIN_S)
    result.assert_outcomes(passed=2)
    pids, run_dir = json.loads((pytester.path / "said").read_text())
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert not Path(run_dir).exists()


@pytest.mark.slow
@pytest.mark.kernel
def test_job_runs_to_its_end_under_a_lease_of_its_own_and_is_verified(places: Path, pytester: pytest.Pytester) -> None:
    ring = EXAMPLES / "ring-allreduce" / "ring_allreduce.py"
    entry = f"user: {getpass.getuser()}, hosts: [h0, h1], plane: static topology=ring, arguments: true"
    jobs = f"jobs: {{train: {{command: [{sys.executable}, {ring}], {entry}}}}}\n"
    pytester.path.joinpath("rack.yaml").write_text(f"{DEFAULT_TESTBED.read_text()}\n{jobs}")
    pytester.makepyfile("""
        import pytest
        from hwd_drivers.core.errors import FailedError

        def test_train(job, lab):
            done = job("train", "--steps", "5")
            assert job.output(done.id, 1).splitlines()[-1].startswith("step 4: ")
            efficiency = job.efficiency(done.id)
            assert efficiency.whole.operations == 5
            assert 0.8 < efficiency.whole.gamma <= 1  # two hosts, and 32 kB with all headers
            found = job.verify(done.id)
            assert (found.holds, found.operations) == (True, 10), found
            assert lab.is_leased()
            with pytest.raises(FailedError, match="unrecognized arguments: --stpes"):
                job("train", "--stpes", "5")
            assert lab.is_leased()

        def test_after(lab):
            assert lab.status().links == {}
    """)
    result = pytester.runpytest_subprocess("--hwd-testbed=rack.yaml", timeout=WITHIN_S)
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_killed_session_leaves_no_process(places: Path, pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile("""
        import os, signal
        from hwd.config.run_files.places import daemon_of, rack_of

        def test_one(lab):
            environment = lab.running.environment
            rack = rack_of("pytest", environment)
            pids = [daemon_of("pytest", environment).pid, rack.pid, *(host["agent"] for host in rack.hosts.values())]
            print("PIDS", *pids, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-q", str(path)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert told.returncode == -signal.SIGKILL
    [line] = [line for line in told.stdout.splitlines() if "PIDS" in line]
    pids = [int(word) for word in line.partition("PIDS")[2].split()]
    assert len(pids) == 4
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.slow
def test_a_dead_daemon_is_told_of_with_its_last_words(places: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import os, signal
        from hwd.config.run_files.places import daemon_of

        def test_one(lab):
            os.kill(daemon_of("pytest", lab.running.environment).pid, signal.SIGKILL)
            lab.status()

        def test_two(lab):
            pass
    """)
    result = pytester.runpytest_subprocess(timeout=WITHIN_S)
    result.assert_outcomes(failed=1, errors=2)
    result.stdout.fnmatch_lines(["*hwd: failed: daemon of the tests ended with status -9*", "*INFO*http*"])
    kept = pytester.path / "hwd-failures" / "test_a_dead_daemon_is_told_of_with_its_last_words.py-test_one"
    assert (kept / "status.json").read_text().startswith("cannot be read: unreachable: ")
    assert "INFO    http" in (kept / "daemon.log").read_text()


def wait_until_gone(pid: int) -> None:
    """Fails by the test's limit."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)


def test_a_testbed_with_problems_is_told_of_by_line(places: Path, pytester: pytest.Pytester) -> None:
    (pytester.path / "bad.yaml").write_text("testbed: bad\nswitches: {}\nhots: {}\nfibres: []\n")
    pytester.makepyfile("def test_one(lab): pass")
    result = pytester.runpytest_inprocess("--hwd-testbed", "bad.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*hwd: bad input: bad.yaml:3: hots: unknown key*"])


@pytest.fixture
def switch() -> Iterator[str]:
    """Address of a switch that nobody knows as a twin."""
    words = "twin serve polatis-6000 --listen 127.0.0.1:0 --set size=8x8 --json"
    command = (sys.executable, "-m", "hwd.cli", *words.split())
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


@pytest.mark.slow
def test_on_glass_circuits_are_made_and_faults_are_skipped_by_name(
    places: Path, pytester: pytest.Pytester, switch: str
) -> None:
    (pytester.path / "desk.yaml").write_text(
        "testbed: desk\n"
        "switches:\n"
        f"  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, address: '{switch}',\n"
        "         login: {user: admin, password: {env: DESK_PASSWORD}}}\n"
        "hosts: {}\n"
        "fibres: []\n"
    )
    pytester.makepyfile("""
        def test_circuit(lab, circuit):
            assert lab.glass
            circuit("ocs1:1A-2B", ready_within_s=None)
            assert lab.client.switches()[0].crossconnects == ("1A-2B",)

        def test_fault(fault):
            fault("reset", switch="ocs1")

        def test_after(lab):
            assert lab.client.switches()[0].crossconnects == ()
    """)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_PASSWORD", "root")
        result = pytester.runpytest_subprocess("--hwd-lab", "desk.yaml", "-rs", timeout=WITHIN_S)
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*--hwd-lab has real devices only; faults can only be injected into twins*"])
    assert not (places / "run" / "desk" / "daemon.json").exists()


def test_the_plugin_imports_nothing_of_hwd_until_a_test_asks_for_it() -> None:
    """Every session of pytest in the environment pays for what it imports."""
    program = (
        "import sys, typing, pathlib, pytest\n"
        "before = set(sys.modules)\n"
        "import hwd.testing.plugin\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["hwd", "hwd.testing", "hwd.testing.plugin"]


def test_pytest_finds_the_plugin_by_itself(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    told = pytester.runpytest_inprocess("--fixtures", "-q").stdout.str()
    assert [name for name in ("lab", "circuit", "fault", "timeline") if f"\n{name} -- " not in told] == []
