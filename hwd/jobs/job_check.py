"""The check of a job of a testbed file: what `hwd job run` would refuse it for, before anything is started."""

from hwd.config.planes.examined import targets_for
from hwd.fabric.fabric import Fabric
from hwd.jobs.view import view_of
from hwd.model.plane import Job
from hwd.model.testbed import JobEntry, Testbed
from hwd.planes.breach import PlaneError
from hwd_drivers.core.errors import HwdError


def job_obstacle(entry: JobEntry, testbed: Testbed) -> str | None:
    """Why its plane can have no light for it on this testbed; None where nothing is in its way."""
    job = Job(id=entry.name, ranks=entry.ranks, groups=entry.groups)
    try:
        targets = targets_for(entry.plane, entry.plane_arguments, job, view_of(testbed, job))
        for target in targets.values():
            Fabric(testbed).routes(target.links)
    except PlaneError as error:
        return f"plane {entry.plane}: {error}. Mend its package, or take another plane"
    except HwdError as error:
        return str(error)
    return None
