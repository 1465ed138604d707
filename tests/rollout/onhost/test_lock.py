"""The lock of a host over real SSH servers: one roll-out at a time, and none is kept out by one that is gone."""

import asyncio
import getpass
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hwd.model.testbed import Host
from hwd.rollout.broker import Brokers
from hwd.rollout.deploy import Rollout
from hwd.rollout.host_report import Result
from hwd.rollout.layout import Layout
from hwd.rollout.onhost.lock import exclusive
from hwd.rollout.onhost.programs import Failure
from hwd.rollout.remote import RemoteHost
from hwd.rollout.remove import Removal
from hwd_drivers.core.errors import FailedError, HwdError, RefusedError
from hwd_drivers.core.offload import InlineOffload

from ..conftest import LAB, quiet

BUSY = (
    rf"h0: another roll-out to it is in progress: {getpass.getuser()}@.+, since 2\d\d\d-.* UTC by the clock of the host"
)


def h0(sshd: Any) -> Host:
    return Host(name="h0", ports=(), ssh=sshd.place)


def somebody_can(*command: str) -> bool:
    """Whether another user of this machine can do it."""
    return subprocess.run(command, user=1234, group=1234, capture_output=True, check=False).returncode == 0


def works_at(
    sshd: Any, layout: Layout, folder: Path, verb: str, progress: Callable[..., object]
) -> "Rollout | Removal":
    """A roll-out or a removal of a testbed without parts."""
    how: dict[str, Any] = {"layout": layout, "progress": progress, "home": sshd.home}
    how["testbed"] = LAB
    if verb == "remove":
        return Removal(broker=None, **how)
    brokers = Brokers(named="mqtt://10.0.0.1", daemons=None)
    return Rollout(brokers=brokers, offload=InlineOffload(), cache=folder / "cache", **how)


async def test_a_second_roll_out_and_a_removal_are_refused_by_the_name_of_the_first(
    sshd: Any, layout: Layout, tmp_path: Path
) -> None:
    works = [works_at(sshd, layout, tmp_path, verb, lambda *_: None) for verb in ("deploy", "remove")]
    async with RemoteHost.open(h0(sshd), layout, quiet, home=sshd.home) as first:
        async with first.exclude_others():
            for (report,), error in await asyncio.gather(*(work.run([h0(sshd)]) for work in works)):
                with pytest.raises(RefusedError, match=BUSY):
                    raise error or AssertionError("it was let in")
                assert report.result is Result.FAILED
        async with first.exclude_others():
            assert not Path(layout.prefix).exists(), "nothing was made there"


@pytest.mark.parametrize("verb", ["deploy", "remove"])
async def test_a_roll_out_that_its_operator_ends_says_what_became_of_each_host(
    sshd: Any, layout: Layout, tmp_path: Path, verb: str
) -> None:
    """Ctrl-C, while the first host is at work."""
    connecting = asyncio.Event()
    work = works_at(sshd, layout, tmp_path, verb, lambda *_: connecting.set())
    running = asyncio.create_task(work.run([h0(sshd), Host(name="h1", ports=(), ssh=sshd.place)]))
    await connecting.wait()
    running.cancel()
    reports, error = await running
    assert [(one.host, one.result) for one in reports] == [("h0", Result.CUT_OFF), ("h1", Result.UNTOUCHED)]
    assert error is not None
    assert (error.exit_status, str(error).endswith(f"`hwd agent {verb} h0` finishes it")) == (130, True)
    assert str(reports[0]) == "h0 cut-off", "why is said once, by the error"


async def test_a_roll_out_whose_connection_broke_keeps_nobody_out(sshd: Any, layout: Layout) -> None:
    async with RemoteHost.open(h0(sshd), layout, quiet, home=sshd.home) as second:
        cut = list(sshd.children)
        with pytest.raises(HwdError, match="the SSH connection broke"):
            async with RemoteHost.open(h0(sshd), layout, quiet, home=sshd.home) as first, first.exclude_others():
                for child in [child for child in sshd.children if child not in cut]:
                    child.kill()
                await first.look()
        async with second.exclude_others():
            assert getpass.getuser() in Path(layout.lock).expanduser().read_text()


def test_a_lock_file_that_nobody_holds_keeps_nobody_out_and_one_that_leads_elsewhere_is_refused(
    layout: Layout, tmp_path: Path
) -> None:
    assert Layout().lock == Layout(prefix="/srv/hwd").lock
    assert len({Layout(prefix=prefix, unit="").lock for prefix in ("", "/srv/hwd")} | {Layout().lock}) == 3
    Path(layout.lock).expanduser().write_text("ada@gone")
    with exclusive(os.path.expanduser(layout.lock), "bob@desk") as other:
        assert (other, Path(layout.lock).expanduser().read_text()) == (None, "bob@desk")
        with exclusive(os.path.expanduser(layout.lock), "cy@desk") as third:
            assert third is not None
            assert third.startswith("bob@desk, since ")
        assert Path(layout.lock).expanduser().read_text() == "bob@desk"
    assert not Path(layout.lock).expanduser().exists()
    victim, lock = tmp_path / "victim", Path(layout.lock).expanduser()
    victim.write_text("mine")
    lock.symlink_to(victim)
    try:
        refused = pytest.raises(Failure, match=f"is a link to {victim}, .*It is left alone")
        with refused, exclusive(str(lock), "bob@desk"):
            pass
        assert victim.read_text() == "mine"
    finally:
        lock.unlink()


def test_a_full_disk_keeps_nobody_from_the_host(layout: Layout) -> None:
    """Of all that is done there, the removal is what frees it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with exclusive(os.path.expanduser(layout.lock), "bob@desk") as other:
            assert other is None
            with exclusive(os.path.expanduser(layout.lock), "cy@desk") as third:
                assert third is not None
                assert third.startswith("somebody, since ")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.root
@pytest.mark.parametrize(
    ("make", "why"), [(Path.touch, "belongs to the user with id 1234"), (os.mkfifo, "is no regular file")]
)
def test_a_lock_that_somebody_else_has_made_is_left_alone_and_named(
    layout: Layout, make: Callable[[Path], None], why: str
) -> None:
    lock = Path(layout.lock).expanduser()
    make(lock)
    os.chown(lock, 1234, 1234)
    try:
        with pytest.raises(Failure, match=rf"{lock}: {why}, .*It is left alone"), exclusive(str(lock), "bob@desk"):
            pass
        assert lock.stat().st_uid == 1234
    finally:
        lock.unlink()


@pytest.mark.root
async def test_no_other_user_of_the_host_can_take_a_name_that_a_roll_out_needs(sshd: Any) -> None:
    """Over SSH, with the layout of every host: who would block it finds no place to."""
    layout = Layout()
    for name in (layout.lock, layout.staging, f"{layout.staging}/x"):
        assert not somebody_can("ln", "-s", "/etc/hostname", name), f"{name} can be taken by anybody"
    async with RemoteHost.open(h0(sshd), layout, quiet, home=sshd.home) as remote, remote.exclude_others():
        assert getpass.getuser() in Path(layout.lock).read_text()
        async with remote.staging({"agent.yaml": b"secret"}) as folder:
            assert Path(folder).parent == Path(layout.staging)
            for path in (Path(folder), Path(folder) / "agent.yaml"):
                assert not somebody_can("ls", str(path))
    assert not Path(layout.staging).exists()


@pytest.mark.root
async def test_what_is_not_ours_at_the_place_of_copies_is_left_alone_and_named(
    sshd: Any, layout: Layout, tmp_path: Path
) -> None:
    place, victim = Path(layout.staging), tmp_path / "victim"
    victim.mkdir()
    place.parent.mkdir(parents=True)
    place.symlink_to(victim)
    os.chown(place, 1234, 1234, follow_symlinks=False)
    said: list[str] = []
    async with RemoteHost.open(h0(sshd), layout, lambda _, words: said.append(words), home=sshd.home) as remote:
        with pytest.raises(FailedError, match=rf"h0: {place}: is a link to {victim}, .*It is left alone"):
            async with remote.staging({"agent.yaml": b"secret"}):
                pass
        await remote.do("remove", keep_spool=False, leave_settings=False)
        assert said[1:] == [f"{place} is a link to {victim}: it is left alone"]
        place.unlink()
        place.mkdir()
        (place / "planted").symlink_to(victim)
        await remote.do("remove", keep_spool=False, leave_settings=False)
        assert said[2:] == [f"{place / 'planted'} is none of our folders: it is left alone"]
        assert (place / "planted").is_symlink()
        place.chmod(0o1777)
        await remote.do("remove", keep_spool=False, leave_settings=False)
        assert said[3:] == [f"{place} may be written by others (mode 1777): it is left alone"]
    assert list(victim.iterdir()) == []
