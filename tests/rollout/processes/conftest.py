"""The network of a twin host, what is closed at the end of a test, and programs of an ordinary user."""

import asyncio
import getpass
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hwd.twin.kernel import Keeper

DEBIAN_PYTHON = "/usr/bin/python3"
"""That of root's virtual environment is not to be read by others."""
WITHIN_S = 30.0


async def said_without_root(program: str, *arguments: str) -> tuple[str, list[str], str]:
    """Run a Python program as an ordinary user, with a folder of its own as the first argument: who that is, the words
    that it wrote, and its errors. Skips the test where no such user can make namespaces.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"  # our packages are for no other
    if os.geteuid() == 0 and not Path(f"/usr/bin/python{version}").exists():
        pytest.skip(f"needs /usr/bin/python{version}")
    who = getpass.getuser() if os.geteuid() else "nobody"
    python = sys.executable if os.geteuid() else f"/usr/bin/python{version}"
    with tempfile.TemporaryDirectory(prefix="hwd-") as folder:
        shutil.chown(folder, who)
        process = await asyncio.create_subprocess_exec(
            *(python, "-B", "-c", program, f"{folder}/run", *arguments),
            env={"HOME": folder, "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
            user=None if os.geteuid() else who,
            group=None if os.geteuid() else "nogroup",
            extra_groups=None if os.geteuid() else [],
            stdout=PIPE,
            stderr=PIPE,
        )
        async with asyncio.timeout(WITHIN_S):
            out, err = await process.communicate()
    if b"NamespacesUnavailableError" in err or b"Permission denied" in err:
        pytest.skip(f"{who} cannot make namespaces here, or read this checkout")
    return who, out.decode().split(), err.decode()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    async with Keeper() as keeper:
        await keeper.start(["h0"], tmp_path / "run")
        yield keeper
