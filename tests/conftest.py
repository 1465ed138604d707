"""What every test must keep to: nothing that it started outlives it; what it needs of the machine is named."""

import asyncio
import functools
import gc
import inspect
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import vl_convert
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, settings

from .virtual_time import both_times, pytest_asyncio_loop_factories, virtual_loop, virtual_time

__all__ = ["both_times", "pytest_asyncio_loop_factories", "virtual_loop", "virtual_time"]

THREAD_GRACE_S = 2.0
"""A thread that was told to stop may need a moment to be gone; one that is there after this was not told."""

LONGEST = (
    *("test_power_cut.py", "test_how_to_pages.py", "test_figures.py", "test_pages.py", "test_seeds.py"),
    *("test_all_drivers.py", "test_fresh_host.py", "test_paper_figures.py", "test_job_faults.py", "test_verbs.py"),
)
"""Files that take minutes where slow tests run."""
LONG = ("system", "notebooks", "daemon", "sim", "docs")
"""Folders of tests that take seconds each."""

LOST = ("never retrieved", "was destroyed but it is pending")
"""What asyncio only logs when an error or a task is lost."""

_WIDER_ENDED = pytest.StashKey[bool]()

settings.register_profile("hwd", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hwd")


def pytest_configure() -> None:
    """Undo a shell's ignoring of Ctrl-C for processes in the background, which children inherit; tests send Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--files-by-seed", type=int, metavar="SEED", help="run the files in an order that SEED draws")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first, then folders whose tests wait for real racks: what is quick evens out what is left."""
    seed = config.getoption("--files-by-seed")
    if seed is None:
        items.sort(key=lambda item: (item.path.name not in LONGEST, item.path.parent.name not in LONG))
        return
    files = sorted({item.path for item in items})
    random.Random(seed).shuffle(files)
    items.sort(key=lambda item: files.index(item.path))


def pytest_collection_finish() -> None:
    """Keep what the imports made out of the collection after each test: it then takes 1 ms, not 100.

    Between those, Python by itself collects seldom: with its thresholds, that took a tenth of the time of all tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Keep out also what came later and stays: first imports of a test, caches, fixtures of a whole file.

    Here, and not with the fixtures, since values of fixtures can be garbage only from here on. Objects outside the
    collection are collected again when a fixture of more than one test has ended, whose value may have left garbage.
    """
    result = yield
    if item.session.stash.get(_WIDER_ENDED, False):
        item.session.stash[_WIDER_ENDED] = False
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    return result


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
    if fixturedef.scope != "function" and not fixturedef.argname.startswith("_"):  # those of plug-ins hold no rack
        request.session.stash[_WIDER_ENDED] = True


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")
    if item.get_closest_marker("kernel") and (why := _namespaces_missing()):
        pytest.skip(f"needs network namespaces: {why}")


@functools.cache
def _namespaces_missing() -> str:
    """Why this machine gives us no network namespace with a veth pair; empty where it does."""
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    pair = ["ip", "link", "add", "name", "p0", "type", "veth", "peer", "name", "p1"]
    try:
        tried = subprocess.run(
            ["unshare", *mapped, "--net", "--mount", "--", *pair], capture_output=True, text=True, timeout=10
        )
    except FileNotFoundError as error:
        return str(error)
    return "" if tried.returncode == 0 else tried.stderr.strip()


@pytest.fixture(scope="session", autouse=True)
def vega_runtime() -> None:
    """The runtime of vl-convert has two sockets from its first chart on, until the process ends."""
    vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}})


@pytest.fixture(autouse=True)
def nothing_outlives_the_test() -> Iterator[None]:
    """Fail the test for a thread, a socket or an error that it left behind, its event loop included.

    Transports and files that were not closed raise ResourceWarning in the collection here, and warnings are errors.
    """
    threads = set(threading.enumerate())
    sockets = _sockets()
    with _LostErrors() as lost:
        yield
        gc.collect()
    assert not lost.seen, f"asyncio lost: {lost.seen}"
    for thread in set(threading.enumerate()) - threads:
        thread.join(THREAD_GRACE_S)
        assert not thread.is_alive(), f"thread left: {thread.name}"
    left = _sockets() - sockets
    assert not left, f"sockets left open: {sorted(left)}"


@pytest.fixture(autouse=True)
def no_task_outlives_the_test(request: pytest.FixtureRequest, nothing_outlives_the_test: None) -> None:
    """Set up before the test's own fixtures, hence finished after them; a test without a loop needs none."""
    if _is_async(request.function):
        request.getfixturevalue("tasks_of_the_loop")


@pytest.fixture(autouse=True)
def logging_is_as_it_was() -> Iterator[None]:
    """Restore logging after a command that a test runs in its own process.

    The command sets levels that a later test would see, and a stream that is closed by then.
    """
    levels = _levels()
    yield
    for handler in [each for each in logging.root.handlers if type(each) is logging.StreamHandler]:
        logging.root.removeHandler(handler)
    for name, level in _levels().items():
        if level != (before := levels.get(name, logging.NOTSET)):  # to set one takes the time of all loggers
            logging.getLogger(name).setLevel(before)


def _levels() -> dict[str | None, int]:
    return {name: logging.getLogger(name).level for name in (None, *logging.root.manager.loggerDict)}


@pytest.fixture
async def tasks_of_the_loop() -> AsyncIterator[None]:
    """Fail the test for a task that is still there when all its fixtures are gone."""
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks left: {sorted(task.get_name() for task in left)}"


class _LostErrors(logging.Handler):
    """Collects what asyncio would only have logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def __enter__(self) -> "_LostErrors":
        logging.getLogger("asyncio").addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger("asyncio").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if any(words in message for words in LOST):
            self.seen.append(f"{message}: {record.exc_info[1]!r}" if record.exc_info else message)


def _sockets() -> set[str]:
    """The kernel's names of the sockets this process holds; empty where there is no /proc."""
    names = set()
    for fd in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if name.startswith("socket:"):
            names.add(name)
    return names


def _is_async(function: object) -> bool:
    hypothesis_test = getattr(function, "hypothesis", None)
    return inspect.iscoroutinefunction(getattr(hypothesis_test, "inner_test", function))


@pytest.fixture(scope="session")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that a device or a broker signed itself, for 127.0.0.1 and ocs1, behind its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ocs1")])
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=36500))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("ocs1"), x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("certificate") / "device.pem"
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def work_of() -> Callable[[Callable[[], object]], int]:
    """The work of a call, in calls of functions: equal on every machine, so that a test can limit its growth."""

    def work_of(do: Callable[[], object]) -> int:
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            do()
        finally:
            sys.setprofile(before)
        return calls

    return work_of
