"""The lock of a host over real SSH servers: one roll-out at a time, and none is kept out by one that is gone."""

import asyncio
import getpass
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from hwd.model.testbed import Host, Testbed
from hwd.rollout.broker import Brokers
from hwd.rollout.deploy import Rollout
from hwd.rollout.layout import Layout
from hwd.rollout.onhost_lock import exclusive
from hwd.rollout.remote import RemoteHost
from hwd.rollout.remove import Removal
from hwd.rollout.steps import Result
from hwd_drivers.kit.errors import HwdError, RefusedError
from hwd_drivers.kit.offload import ThreadOffload

BUSY = rf"h0: somebody rolls out to it already: {getpass.getuser()}@.+, since 2\d\d\d-.* UTC by the clock of the host"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(prefix=str(tmp_path / "host"), unit="")


def h0(sshd: Any) -> Host:
    return Host(name="h0", ports=(), ssh=sshd.place)


def quiet(words: str) -> None:
    """Nobody listens."""


async def test_a_second_roll_out_and_a_removal_are_refused_by_the_name_of_the_first(
    sshd: Any, layout: Layout, tmp_path: Path
) -> None:
    testbed = Testbed(name="lab", switches={}, hosts={}, strands=())
    offload = ThreadOffload(1)
    deploy = Rollout(
        testbed=testbed,
        brokers=Brokers(named="mqtt://10.0.0.1", daemons=None),
        layout=layout,
        offload=offload,
        cache=tmp_path / "cache",
        progress=lambda host, words: None,
        home=sshd.home,
    )
    remove = Removal(testbed=testbed, broker=None, layout=layout, progress=lambda host, words: None, home=sshd.home)
    try:
        async with RemoteHost.open(h0(sshd), layout, quiet, home=sshd.home) as first:
            async with first.alone():
                for (report,), error in await asyncio.gather(deploy.run([h0(sshd)]), remove.run([h0(sshd)])):
                    with pytest.raises(RefusedError, match=BUSY):
                        raise error or AssertionError("it was let in")
                    assert report.result is Result.FAILED
            async with first.alone():
                assert not Path(layout.prefix).exists(), "nothing was made there"
    finally:
        offload.close()


@pytest.mark.parametrize("verb", ["deploy", "remove"])
async def test_a_roll_out_that_its_operator_ends_says_what_became_of_each_host(
    sshd: Any, layout: Layout, tmp_path: Path, verb: str
) -> None:
    """Ctrl-C, while the first host is at work."""
    testbed = Testbed(name="lab", switches={}, hosts={}, strands=())
    offload = ThreadOffload(1)
    connecting = asyncio.Event()
    how: dict[str, Any] = {"testbed": testbed, "layout": layout, "progress": lambda *_: connecting.set()}
    how["home"] = sshd.home
    brokers = Brokers(named="mqtt://10.0.0.1", daemons=None)
    work: Rollout | Removal = Removal(broker=None, **how)
    if verb == "deploy":
        work = Rollout(brokers=brokers, offload=offload, cache=tmp_path / "cache", **how)
    try:
        running = asyncio.create_task(work.run([h0(sshd), Host(name="h1", ports=(), ssh=sshd.place)]))
        await connecting.wait()
        running.cancel()
        reports, error = await running
    finally:
        offload.close()
    assert [(one.host, one.result) for one in reports] == [("h0", Result.CUT_OFF), ("h1", Result.UNTOUCHED)]
    assert error is not None
    assert (error.exit_status, str(error).endswith(f"`hwd agent {verb} h0` finishes it")) == (130, True)
    assert str(reports[0]) == "h0 cut-off", "why is said once, by the error"


async def test_a_roll_out_whose_connection_broke_keeps_nobody_out(sshd: Any, layout: Layout) -> None:
    async with RemoteHost.open(h0(sshd), layout, quiet, home=sshd.home) as second:
        cut = list(sshd.children)
        with pytest.raises(HwdError, match="the SSH connection broke"):
            async with RemoteHost.open(h0(sshd), layout, quiet, home=sshd.home) as first, first.alone():
                for child in [child for child in sshd.children if child not in cut]:
                    child.kill()
                await first.look()
        async with second.alone():
            assert getpass.getuser() in Path(layout.lock).read_text()


def test_roll_outs_to_two_places_of_a_host_that_has_one_unit_keep_each_other_out() -> None:
    assert Layout().lock == Layout(prefix="/srv/hwd").lock
    assert len({Layout(prefix=prefix, unit="").lock for prefix in ("", "/srv/hwd")} | {Layout().lock}) == 3


def test_a_lock_file_that_nobody_holds_keeps_nobody_out(layout: Layout) -> None:
    Path(layout.lock).write_text("ada@gone")
    with exclusive(layout.lock, "bob@desk") as other:
        assert (other, Path(layout.lock).read_text()) == (None, "bob@desk")
        with exclusive(layout.lock, "cy@desk") as third:
            assert third is not None
            assert third.startswith("bob@desk, since ")
        assert Path(layout.lock).read_text() == "bob@desk"
    assert not Path(layout.lock).exists()


def test_a_full_disk_keeps_nobody_from_the_host(layout: Layout) -> None:
    """Of all that is done there, the removal is what frees it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with exclusive(layout.lock, "bob@desk") as other:
            assert other is None
            with exclusive(layout.lock, "cy@desk") as third:
                assert third is not None
                assert third.startswith("somebody, since ")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_lock_file_that_leads_elsewhere_is_refused(layout: Layout, tmp_path: Path) -> None:
    """Where it lies everybody may write."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.symlink(victim, layout.lock)
    try:
        with pytest.raises(OSError, match="symbolic link"), exclusive(layout.lock, "bob@desk"):
            pass
        assert victim.read_text() == "mine"
    finally:
        os.unlink(layout.lock)
