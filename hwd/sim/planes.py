"""The planes of a simulated world: inline, and killed as a process is."""

from typing_extensions import override

from hwd.config.planes import installed
from hwd.model.job import JobRecord
from hwd.model.plane import Action
from hwd.planes.breach import Breach, PlaneError
from hwd.planes.runner import InlinePlane


class SimPlane(InlinePlane):
    """The plane of one job. One that was killed has no answer any more."""

    is_killed = False

    @override
    async def answer(self) -> tuple[Action, ...]:
        if self.is_killed:
            raise PlaneError(Breach.DIED, "killed by SIGKILL")
        return await super().answer()


class SimPlanes:
    """Makes the planes of all jobs: the newest of each job is its plane."""

    def __init__(self) -> None:
        self._of_jobs: dict[str, SimPlane] = {}

    def __call__(self, job: JobRecord) -> SimPlane:
        """Raises ConfigError for a plane that is not installed."""
        demand_s = installed.find(job.plane).demand_s
        plane = SimPlane(lambda: installed.make(job.plane, job.plane_arguments), demand_s=demand_s)
        self._of_jobs[job.id] = plane
        return plane

    def kill(self, job: str) -> None:
        """Kill the plane of a job; no error where it has none."""
        if (plane := self._of_jobs.get(job)) is not None:
            plane.is_killed = True
