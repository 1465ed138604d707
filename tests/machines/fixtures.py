"""Machines for tests, by fixture.

    from ..machines.fixtures import machine_image, machines, pytest_collection_modifyitems, pytest_runtest_makereport

in the conftest of a folder gives its tests `machines`, starts those first, since none takes longer, and shows their
consoles where a test fails. Such tests are
`slow` and `root`, and have a timeout of 900 s, in which the image can be made.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from . import container
from .container import Container
from .door import Guest
from .image import Image, ImageUnavailableError, open_image
from .machine import Machine, missing


class Machines:
    """Starts machines and containers of one image, and kills them at its end."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._folder = Path(tempfile.mkdtemp(prefix="hwd-m-"))
        self.started: list[Guest] = []

    def start(self, name: str, **how: Any) -> Machine:
        """As `Machine.start`; returns at once, so that several start together."""
        machine = Machine.start(name, self._image, self._place(name), **how)
        self.started.append(machine)
        return machine

    def contain(self, name: str, **how: Any) -> Container:
        """As `Container.start`: a fresh host without a kernel of its own."""
        if why := container.missing():
            pytest.skip(why)
        made = Container.start(name, self._image, self._place(name), **how)
        self.started.append(made)
        return made

    def _place(self, name: str) -> Path:
        return self._folder / f"{name}-{len(self.started)}"

    def words(self) -> str:
        """The ends of all consoles."""
        return "\n".join(machine.console for machine in self.started)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for machine in self.started:
            machine.kill()
        shutil.rmtree(self._folder)


@pytest.fixture(scope="session")
def machine_image(request: pytest.FixtureRequest) -> Image:
    """The disk of virtual machines; made once, which takes two minutes and a mirror of Debian."""
    return _make_image(request.config)


@pytest.fixture
def machines(machine_image: Image) -> Iterator[Machines]:
    """Virtual machines, killed after the test."""
    with Machines(machine_image) as made:
        yield made


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files with machines first: what is quick evens out what workers have left at the end."""
    long = {item.path for item in items if "machine_image" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the consoles where a test with machines fails."""
    report = yield
    made = [one for one in getattr(item, "funcargs", {}).values() if isinstance(one, Machines)]
    if report.when == "call" and report.failed:
        report.sections.extend(("the machines' consoles", one.words()) for one in made)
    return report


def _make_image(config: pytest.Config) -> Image:
    """The image, out of pytest's cache or made there; the test is skipped by name where it cannot be had."""
    if why := missing():
        pytest.skip(f"needs machines: {why}")
    assert config.cache is not None
    try:
        return open_image(config.cache.mkdir("hwd-machines"), _sayer(config))
    except ImageUnavailableError as error:
        pytest.skip(f"needs machines: {error}")


def _sayer(config: pytest.Config) -> Callable[[str], None]:
    """Progress, where somebody may see it: also from a worker of xdist, also while pytest keeps what tests print."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")

    def say(words: str) -> None:
        with capture.global_and_fixture_disabled():
            os.write(2, f"{words}\n".encode())

    return say
