"""A plane in a process of its own, and inline: the same answers; and what becomes of one that misbehaves."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.config.planes import process as plane_process
from hwd.config.planes.process import PlaneProcess
from hwd.daemon.installed_drivers import load
from hwd.jobs.view import view_of
from hwd.model.plane import CommunicationGroup, Intent, Job, Rank, Tick, View
from hwd.planes.runner import InlinePlane, PlaneRunner
from hwd.planes.static import Static
from hwd.testing.forked_plane import forked_plane
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.errors import HwdError

from ..answers import check_answers
from . import bad_planes

JOB = Job(
    id="j",
    ranks=(Rank(number=0, host="h0"), Rank(number=1, host="h1")),
    groups={"world": CommunicationGroup(name="world", ranks=(0, 1))},
)
NEVER = ("loop", "sleep")
OPERATION = Operation(group="world", kind=OperationKind.ALL_REDUCE, index=0, size_bytes=8)


@pytest.fixture(scope="module")
def view() -> View:
    return view_of(load(Path(__file__).parents[2] / "examples/two-hosts.yaml").require(), JOB)


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
