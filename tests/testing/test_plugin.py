"""What the plugin gives to tests, takes back, and says when they fail."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hwd.client import Client
from hwd.config.run_files.places import rack_of
from hwd.report.export import read_jsonl
from hwd.testing.running_lab import RunningLab
from hwd.twin.control import ask_present
from hwd_drivers.core.errors import RefusedError

Session = Callable[..., pytest.RunResult]


@pytest.fixture
def client(hwd_running: RunningLab) -> Iterator[Client]:
    with hwd_running.connect() as client:
        yield client


def test_each_test_finds_the_rack_as_it_was(session: Session, client: Client) -> None:
    result = session("""
        def test_first(circuit, lab):
            assert lab.status().links == {}
            circuit("h0.eth0 <-> h1.eth0", "h0.eth1 <-> h1.eth1")
            circuit("h0.eth0 <-> h1.eth1", "h0.eth1 <-> h1.eth0")
            assert set(lab.status().links) == {"h0.eth0<->h1.eth1", "h0.eth1<->h1.eth0"}

        def test_second(lab):
            assert lab.status().links == {}
            assert [lease.id for lease in lab.status().leases] == [lab.lease.id]
            lab.apply("ocs1:5A-6B", ready_within_s=None)

        def test_third(lab):
            assert [switch.crossconnects for switch in lab.client.switches()] == [()]
    """)
    result.assert_outcomes(passed=3)
    assert client.leases() == []


def test_what_was_there_before_comes_back(session: Session, client: Client) -> None:
    client.apply(what="ocs1:1A-3B,3A-1B,5A-6B")
    try:
        result = session("""
            def test_moves_it(circuit):
                circuit("h0.eth0 <-> h1.eth1")

            def test_takes_it_away(circuit, lab):
                circuit("ocs1:none")
                assert lab.client.switches()[0].crossconnects == ()
        """)
        result.assert_outcomes(passed=2)
        assert set(client.switches()[0].crossconnects) == {"1A-3B", "3A-1B", "5A-6B"}
    finally:
        client.apply(what="ocs1:none")


def test_what_awaits_a_confirm_is_rolled_back_with_the_test(session: Session, client: Client) -> None:
    result = session("""
        def test_it(lab):
            assert lab.apply("ring rail=0", confirm_within_s=300).state == "awaiting-confirm"

        def test_after(lab):
            assert lab.status().reconfigurations == []
            assert lab.status().links == {}
    """)
    result.assert_outcomes(passed=2)
    assert client.status().settled


def test_a_running_daemon_of_the_testbed_is_used_and_left(
    pytester: pytest.Pytester, hwd_running: RunningLab, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hwd_running.testbed is not None
    monkeypatch.setenv("HWD_RUN_DIR", hwd_running.environment["HWD_RUN_DIR"])
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(f"""
        def test_it(lab, fault):
            assert lab.glass
            assert lab.client.url == "{client.url}"
            fault("slow", switch="ocs1", seconds=0.01)
    """)
    pytester.runpytest_inprocess("--hwd-lab", str(hwd_running.testbed)).assert_outcomes(passed=1)
    assert client.status().settled


def test_a_lease_of_a_part_leaves_the_rest_to_others(session: Session, client: Client) -> None:
    """What others did meanwhile on their ports stays."""
    other = client.take_lease(holder="other", ports=["ocs1.5", "ocs1.6"], for_s=60)
    try:
        result = session(f"""
            import pytest

            @pytest.mark.hwd_lease("ocs1.1", "ocs1.3", "h0.eth0", "h1.eth0", for_s=30)
            def test_part(circuit, lab):
                assert 29 < lab.lease.left_s <= 30
                circuit("h0.eth0 <-> h1.eth0")
                lab.client.apply(what="ocs1:5A-6B", lease="{other.id}")
        """)
        result.assert_outcomes(passed=1)
        assert client.switches()[0].crossconnects == ("5A-6B",)
        client.apply(what="ocs1:none", lease=other.id)
    finally:
        client.release_lease(other.id)


def test_what_is_put_back_leaves_a_reconfiguration_of_others_open(session: Session, client: Client) -> None:
    client.apply(what="ocs1:2A-4B,4A-2B")
    other = client.take_lease(holder="other", ports=["ocs1.5", "ocs1.6"], for_s=60)
    try:
        result = session(f"""
            import pytest

            @pytest.mark.hwd_lease("ocs1.1", "ocs1.2", "ocs1.3", "ocs1.4", "h0.eth0", "h0.eth1", "h1.eth0", "h1.eth1")
            def test_part(lab):
                lab.client.apply(what="ocs1:5A-6B", lease="{other.id}", confirm_within_s=60)
                lab.apply("ocs1:1A-3B,2A-1B", ready_within_s=None)
        """)
        result.assert_outcomes(passed=1)
        assert set(client.switches()[0].crossconnects) == {"2A-4B", "4A-2B", "5A-6B"}
        assert [one.state for one in client.reconfigurations()] == ["awaiting-confirm"]
        client.roll_back()
        client.apply(what="ocs1:none", lease=other.id)
    finally:
        client.release_lease(other.id)


def present(running: RunningLab) -> list[str]:
    """The faults that are set in the rack."""
    rack = rack_of("pytest", running.environment)
    assert rack is not None
    return [str(fault) for fault in ask_present(Path(rack.control))]


def test_faults_of_others_stay_and_nobody_else_ends_them(
    session: Session, client: Client, hwd_running: RunningLab
) -> None:
    other = client.take_lease(holder="other", ports=["h1.eth1"], for_s=60)
    try:
        client.fault({"port": "h1.eth1", "fault": "weak", "loss_db": 1}, lease=other.id)
        result = session(r"""
            import pytest
            from hwd_drivers.core.errors import RefusedError

            @pytest.mark.hwd_lease("ocs1.1", "ocs1.3", "h0.eth0", "h1.eth0")
            def test_part(fault, lab):
                fault("weak", port="h0.eth0", loss_db=2)
                everything = {"fault": "clear"}
                for one in (everything, {"fault": "clear", "port": "h1.eth1"}, {"fault": "clear", "host": "h1"}):
                    with pytest.raises(RefusedError, match=r"h1\.eth1: leased to other"):
                        lab.client.fault(one, lease=lab.lease.id)
        """)
        result.assert_outcomes(passed=1)
        assert present(hwd_running) == ["h1.eth1 weak loss_db=1.0"]
        client.fault({"fault": "clear"}, lease=other.id)
        assert present(hwd_running) == []
    finally:
        client.release_lease(other.id)


@pytest.mark.slow
def test_a_fault_whose_answer_was_lost_is_cleared_all_the_same(session: Session, hwd_running: RunningLab) -> None:
    rack = rack_of("pytest", hwd_running.environment)
    assert rack is not None
    result = session(f"""
        import os, pytest, signal
        from hwd_drivers.core.errors import LinkError

        def test_it(fault):
            os.kill({rack.pid}, signal.SIGSTOP)
            try:
                with pytest.raises(LinkError):
                    fault("weak", port="h0.eth0", loss_db=2)
            finally:
                os.kill({rack.pid}, signal.SIGCONT)
    """)
    result.assert_outcomes(passed=1)
    assert present(hwd_running) == []


def test_ports_of_somebody_else_fail_a_test_with_his_name(session: Session, client: Client) -> None:
    other = client.take_lease(holder="somebody", ports=["ocs1.5"], for_s=60)
    try:
        result = session("def test_it(lab): pass")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*hwd: refused: *ocs1.5*: leased to somebody*"])
        result = session("def test_it(lab): pass", "--hwd-leased", "skip", "-rs")
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines(["*leased to somebody*"])
    finally:
        client.release_lease(other.id)


def test_a_lease_that_is_lost_is_told_of(session: Session, client: Client) -> None:
    result = session("""
        def test_it(lab, circuit):
            circuit("ocs1:5A-6B", ready_within_s=None)
            lab.client.kick_lease(lab.lease.id)
    """)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*not in force at the end of the test*crossconnects were not restored*hwd_lease*"])
    client.apply(what="ocs1:none")


def test_a_stage_that_was_too_long_is_shown_with_all_others(session: Session) -> None:
    result = session("""
        def test_it(circuit, timeline):
            circuit("h0.eth0 <-> h1.eth0", "h0.eth1 <-> h1.eth1")
            assert len(timeline) == 1
            assert timeline.turnaround_s < 1e-6
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *assert <turnaround * ms ± * of h?.eth?<->h?.eth?, *> < 1e-06",
            "E *link *turnaround*",
            "E *h0.eth0<->h1.eth0 *ms*",
        ]
    )


def test_of_a_failed_test_all_is_kept_and_named(session: Session, pytester: pytest.Pytester) -> None:
    result = session(
        """
        import pytest

        @pytest.mark.parametrize("what", ["a/b c"])
        def test_it(circuit, what):
            circuit("ring rail=0")
            assert what == "never"

        def test_good(circuit):
            circuit("ring rail=0")
        """,
        "--hwd-artefacts",
        "kept",
    )
    result.assert_outcomes(failed=1, passed=1)
    [folder] = (pytester.path / "kept").iterdir()
    assert folder.name == "test_inner.py-test_it-a-b-c"
    result.stdout.fnmatch_lines(["*hwd: kept*", f"{folder}: documents.jsonl, report.html, status.json"])
    run, documents = read_jsonl((folder / "documents.jsonl").read_text().splitlines())
    assert (run.id, run.outcome) == ("test_inner.py::test_it[a/b c]", "failed")
    kinds = [document.kind for document in documents]
    assert kinds.count("timeline") == 1
    assert {"lease.taken", "reconfiguration.started", "reconfiguration.ended"} <= set(kinds)
    assert json.loads((folder / "status.json").read_text())["links"]
    report = (folder / "report.html").read_text()
    assert "<svg" in report
    assert "&#x27;a/b c&#x27; == &#x27;never&#x27;" in report


def test_markers_are_heeded_and_misspelt_ones_refused_and_coroutines_have_a_client_of_their_loop(
    session: Session,
) -> None:
    result = session(
        """
        import pytest
        from hwd_drivers.core.errors import ConfigError

        @pytest.mark.hwd_needs(hosts=2)
        def test_enough(lab): pass

        @pytest.mark.hwd_needs(hosts=3, ports=4)
        def test_more(lab): pass

        @pytest.mark.hwd_needs(host=2)
        def test_misspelt(lab): pass

        @pytest.mark.hwd_lease(seconds=1)
        def test_misspelt_lease(lab): pass

        async def test_coroutine(lab, timeline):
            async with lab.aclient() as hwd:
                made = await hwd.apply(what="ring rail=0", lease=lab.lease.id, ready_within_s=10)
                assert made.outcome == "confirmed"
            assert timeline.last.reconfiguration == made.id

        @pytest.mark.parametrize(
            "wanted", [(), ("ring", "pairs"), ("h0.eth0 <-> h9.eth0",), ("h0.eth0 <-> h1.eth0", "ring")]
        )
        def test_what_is_no_circuit_is_refused_before_anything_moves(circuit, lab, wanted):
            with pytest.raises(ConfigError):
                circuit(*wanted)
            assert lab.documents("reconfiguration.").documents == ()
        """,
        "-rs",
    )
    result.assert_outcomes(passed=6, skipped=1, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "*hwd: the rack has 2 of 3 hosts that the test needs*",
            "*hwd_needs: no argument host; it takes hosts*",
            "*hwd_lease: no argument*",
        ]
    )


def test_lab_and_testbed_exclude_each_other(session: Session) -> None:
    result = session("def test_it(): pass", "--hwd-testbed", "x.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--hwd-lab is the real rack and --hwd-testbed are twins: name only one of them"])


def test_the_rack_is_free_again_after_all_of_it(client: Client) -> None:
    assert client.status().settled
    with pytest.raises(RefusedError):
        client.roll_back()
    client.release_lease(client.take_lease(holder="me", ports=["all"], for_s=5).id)
