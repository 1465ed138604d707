"""What the records answer is on the disk: where the disk does not sync, nothing is answered."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = '''
import asyncio, ctypes, errno, platform, struct, sys

from hwd.hosts.delegations import Delegation
from hwd.model.lease import LeaseTaken
from hwd.ports.ledger import Ledger
from hwd.reconfigure.leases.leases import Leases
from hwd.records.records import Records
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.core.offload import InlineOffload

FSYNC, FDATASYNC = {"x86_64": (74, 75), "aarch64": (82, 83)}[platform.machine()]


def refuse_syncs():
    """From here on the kernel answers fsync and fdatasync of this process with EIO, by a seccomp filter."""
    load, equal, answer = 0x20, 0x15, 0x06
    code = [(load, 0, 0, 0), (equal, 2, 0, FSYNC), (equal, 1, 0, FDATASYNC)]
    code += [(answer, 0, 0, 0x7FFF0000), (answer, 0, 0, 0x00050000 | errno.EIO)]
    text = b"".join(struct.pack("HBBI", *one) for one in code)
    held = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, a filter


async def refused(answering):
    try:
        await answering
    except FailedError as error:
        assert "disk I/O error" in str(error), error
        return
    raise AssertionError("answered, and not synced")


async def main():
    records = Records(f"sqlite:///{sys.argv[1]}", InlineOffload())
    await records.open()
    told = []
    ledger = Ledger()
    leases = Leases(ledger, store=records.leases, clock=SystemClock(), ids=SeededIds(1), sink=told.append)
    first = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
    refuse_syncs()
    await refused(leases.take(holder="bob", ports=["ocs1.2"], for_s=60))
    await refused(leases.renew(first.id, for_s=3600))
    assert leases.all() == (first,), "nobody was told of more"
    assert [type(one.fact) for one in told] == [LeaseTaken]
    epoch = Delegation(switch="sel0", host="h0", boot="b", epoch=2, state="granted", since_wall_ns=1, why="")
    await refused(records.delegations.save(epoch))


asyncio.run(main())
'''


@pytest.mark.skipif(sys.platform != "linux", reason="a seccomp filter is Linux")
def test_lease_renewal_and_epoch_are_answered_only_when_they_are_synced(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "records.db")], capture_output=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr.decode()
