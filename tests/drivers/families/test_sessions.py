"""What twins answer to other clients: bytes in `sessions.txt`, then HTTP, NETCONF and a shell."""

import asyncio
from pathlib import Path

import pytest

from hwd_drivers.twins.virtual_time import run_virtual

from .sessions import CliScene, HttpScene, RpcScene, Scene, check_sessions

HERE = Path(__file__).parent


def of(file: Path) -> str:
    return str(file.parent.relative_to(HERE))


@pytest.mark.parametrize("file", sorted(HERE.rglob("sessions.txt")), ids=of)
def test_twins_answer_bytes_as_they_did(file: Path) -> None:
    check_sessions(file, Scene, run_virtual)


@pytest.mark.parametrize("file", sorted(HERE.rglob("requests.txt")), ids=of)
def test_twins_answer_requests_as_they_did(file: Path) -> None:
    check_sessions(file, HttpScene, asyncio.run)


@pytest.mark.parametrize("file", sorted(HERE.rglob("rpcs.txt")), ids=of)
def test_twins_answer_operations_as_they_did(file: Path) -> None:
    check_sessions(file, RpcScene, asyncio.run)


@pytest.mark.parametrize("file", sorted(HERE.rglob("lines.txt")), ids=of)
def test_twins_print_what_they_did(file: Path) -> None:
    check_sessions(file, CliScene, run_virtual)
