"""A daemon and a switch twin as processes of their own, and the command line called as a program."""

import asyncio
import dataclasses
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hwd.cli.run_command import run as run_command
from hwd.config.run_files.places import records_path
from hwd.model.kinds import read_fact
from hwd.model.recorded_run import Run
from hwd.records import Records
from hwd.report.export import read_jsonl
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload

from ..report.conftest import parts_checked
from ..system.conftest import Said

__all__ = ["parts_checked"]

HWD = (sys.executable, "-m", "hwd.cli")
RECORDED = Path(__file__).parents[1] / "report" / "export" / "run.jsonl"
FIRST, SECOND, EMPTY, REAL = "kl27i377", "other111", "empty222", "real3333"


Hwd = Callable[..., Said]


def seen_on_a_terminal(*arguments: str, status: int = 0) -> bytes:
    """What a command writes to stderr where that is a terminal. It must end with this exit status."""
    ours, theirs = pty.openpty()
    with subprocess.Popen((*HWD, *arguments), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        try:
            while data := os.read(ours, 4096):
                seen += data
        except OSError:
            pass  # the other end of a pseudo-terminal was closed: that is its end
        assert process.stdout is not None
        process.stdout.read()
        assert process.wait(timeout=60) == status, seen
    os.close(ours)
    return seen


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run and state directories of the tests, for this process and its children."""
    path = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWD_RUN_DIR", str(path / "run"))
        patch.setenv("XDG_STATE_HOME", str(path / "state"))
        patch.setenv("COLUMNS", "100")
        patch.setenv("TERMINAL_WIDTH", "100")
        for name in ("HWD_URL", "HWD_TOKEN", "HWD_TOKENS", "HWD_TOKENS_FILE", "HWD_MQTT", "HWD_MQTT_FILE"):
            patch.delenv(name, raising=False)
        yield path


@pytest.fixture
def hwd(places: Path, capsys: pytest.CaptureFixture[str]) -> Hwd:
    def call(*arguments: str) -> Said:
        capsys.readouterr()
        status = run_command(arguments)
        said = capsys.readouterr()
        return Said(status=status, out=said.out, err=said.err)

    return call


@pytest.fixture(scope="module")
def twin(places: Path) -> Iterator[str]:
    """Address of a switch twin."""
    command = (*HWD, "twin", "serve", "polatis-6000", "--listen", "127.0.0.1:0", "--set", "size=8x8", "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=10)
            assert process.returncode == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def testbed(places: Path, twin: str) -> Path:
    path = places / "desk.yaml"
    path.write_text(
        "testbed: desk\n"
        "switches:\n"
        f"  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, address: '{twin}',\n"
        "         login: {user: admin, password: {env: DESK_PASSWORD}}}\n"
        "hosts: {}\n"
        "fibres: []\n"
        "interlocks: {forbidden-pair: {pairs: {'ocs1:1A-8B': bad mirror}, override: allowed}}\n"
    )
    return path


@pytest.fixture(scope="module")
def daemon(places: Path, testbed: Path) -> Iterator[int]:
    """Process id of a daemon that is ready and has its switch."""
    command = (*HWD, "serve", str(testbed), "--http", "127.0.0.1:0")
    environment = {**os.environ, "DESK_PASSWORD": "root"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            said: list[str] = []
            while "ocs1: up" not in "".join(said):
                said.append(process.stderr.readline())
                assert said[-1], f"ended: {said}"
            yield process.pid
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
            assert process.returncode == 0
        finally:
            process.kill()


def recorded() -> tuple[Run, list[Document]]:
    """The run that tests of reports have."""
    with RECORDED.open("rb") as lines:
        run, documents = read_jsonl(lines)
        return run, [*documents]


def fill(folder: Path, *runs: tuple[Run, list[Document]]) -> str:
    """Put runs and their documents into the records of a data directory."""

    async def write() -> None:
        records = Records(f"sqlite:///{records_path(folder)}", InlineOffload())
        await records.open()
        for run, documents in runs:
            await records.runs.start(run)
            await records.add_documents(documents, run=run.id)
        records.close()

    asyncio.run(write())
    return str(folder)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data directory with one run twice, under two ids, one that did nothing, and one in real time."""
    run, documents = recorded()

    def of(id: str) -> tuple[Run, list[Document]]:
        facts = [(one, one.fact.to_data()) for one in documents]
        own = [
            dataclasses.replace(one, fact=read_fact(one.kind, {**data, "run": id})) if "run" in data else one
            for one, data in facts
        ]
        return replace(run, id=id), own

    real = replace(run, id=REAL, virtual_time=False)
    return fill(tmp_path_factory.mktemp("data"), of(FIRST), of(SECOND), (replace(run, id=EMPTY), []), (real, []))


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time zone of this machine, as the commands find it."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
