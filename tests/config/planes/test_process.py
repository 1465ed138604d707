"""A plane in a process of its own, and inline: the same answers; and what becomes of one that misbehaves."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.config.planes import process as plane_process
from hwd.config.planes.process import PlaneProcess
from hwd.daemon.installed_drivers import load, load_text
from hwd.jobs.view import view_of
from hwd.model.plane import CommunicationGroup, Intent, Job, Rank, Tick, View
from hwd.planes.runner import InlinePlane, PlaneRunner
from hwd.planes.static import Static
from hwd.testing.forked_plane import forked_plane
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.errors import HwdError

from ...answers import check_answers
from . import bad_planes

JOB = Job(
    id="j",
    ranks=(Rank(number=0, host="h0"), Rank(number=1, host="h1")),
    groups={"world": CommunicationGroup(name="world", ranks=(0, 1))},
)
EXAMPLE = Path(__file__).parents[3] / "examples/two-hosts.yaml"
NEVER = ("loop", "sleep")
OPERATION = Operation(group="world", kind=OperationKind.ALL_REDUCE, index=0, size_bytes=8)


@pytest.fixture(scope="module")
def view() -> View:
    return view_of(load(EXAMPLE).require(), JOB)


RUNNERS: dict[str, Callable[[], PlaneRunner]] = {
    "installed": lambda: PlaneProcess("static", {"topology": "pairs"}),
    "forked": lambda: forked_plane(lambda: Static("pairs")),
    "inline": lambda: InlinePlane(lambda: Static("pairs")),
}


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)
async def test_plane_answers_the_same_wherever_it_runs(runner: Callable[[], PlaneRunner], view: View) -> None:
    plane = runner()
    try:
        targets = await plane.begin(JOB, view)
        assert {id: target.links for id, target in targets.items()} == {"static": view.topology("pairs")}
        for rank in (0, 1):
            plane.tell(Intent(rank=rank, operation=OPERATION))
        plane.tell(Tick(at_s=1.0))
        assert repr([await plane.answer() for _ in range(3)]) == "[(Switch(target='static'),), (), ()]"
    finally:
        await plane.close()


PACKAGE = """
import os
from hwd.model.plane import Grant, Intent, PlaneKind, Target

if {loops}:
    while True:
        pass

class Plane:
    def __init__(self, colour):
        if colour == "red":
            raise ValueError("red is no colour")

    def targets(self, job, view):
        return {{"only": Target(links=view.topology("pairs"))}}

    def on(self, event):
        return [Grant(ranks=(event.rank,))] if isinstance(event, Intent) else []

KIND = PlaneKind(make=lambda arguments: Plane(**arguments), arguments=("colour",))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs a package with the plane `guest`, for this process and those that it starts."""

    def install(*, loops: bool = False) -> None:
        (tmp_path / "guest_plane.py").write_text(PACKAGE.format(loops=loops))
        about = tmp_path / "guest_plane-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Name: guest-plane\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[hwd.planes]\nguest = guest_plane:KIND\n")

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return install


def loaded_with(plane: str) -> list[str]:
    text = EXAMPLE.read_text() + f"\njobs:\n  go: {{command: [/bin/x], user: lab, hosts: [h0, h1], plane: {plane}}}\n"
    return [str(problem) for problem in load_text(text, file="x.yaml").problems]


def test_plane_of_another_package_is_asked_in_a_process_and_not_imported(install: Callable[..., None]) -> None:
    assert "plane 'guest': unknown" in loaded_with("guest")[0]
    install()
    assert loaded_with("guest colour=blue") == []
    assert "plane guest: no argument 'color'; did you mean colour?" in loaded_with("guest color=blue")[0]
    assert "plane guest colour=red: red is no colour" in loaded_with("guest colour=red")[0]
    assert "guest_plane" not in sys.modules


def test_plane_whose_package_never_lets_itself_be_loaded_is_a_warning(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(loops=True)
    monkeypatch.setattr(plane_process, "BEGIN_S", 2.0)
    (said,) = loaded_with("guest")
    assert "never returns: no answer within 2 s" in said
    assert "its jobs are refused until it is there" in said


def test_plane_that_misbehaves_is_ended_with_what_it_did(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(text: str) -> str:
        act, where = text.split()
        within_s = 0.2 if act in NEVER else 30.0
        monkeypatch.setattr(plane_process, "BEGIN_S", within_s)

        async def told() -> str:
            made = bad_planes.Plane(bad_planes.ACTS[act], where)
            plane = forked_plane(lambda: made, within_s=within_s, memory_bytes=64 << 20)
            try:
                await plane.begin(JOB, view)
                plane.tell(Intent(rank=0, operation=OPERATION))
                return str(await plane.answer())
            except HwdError as error:
                return str(error)
            finally:
                await plane.close()

        return asyncio.run(told())

    check_answers(Path(__file__).with_name("bad_planes.txt"), {"a plane that does, in": of})
