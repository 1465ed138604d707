"""put_back_all: puts back the settings of runs while no agent runs here, for an agent that is uninstalled."""

from pathlib import Path

from hwd_agents.process.config import AgentConfig
from hwd_agents.settings.port_settings import Settings
from hwd_agents.sources.sources import Sources
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.errors import FailedError


async def put_back_all(config: AgentConfig, folder: Path, sources: Sources, clock: Clock) -> list[str]:
    """Put them back, last change first; returns a text for each. `folder` is the spool's, locked by the caller.

    Raises FailedError with those that are left, and why.
    """
    settings = Settings(
        config.ports,
        sources.settings,
        FileDisk(folder / "settings"),
        clock=clock,
        life=sources.life,
        on_change=lambda: None,
        way=sources.way,
    )
    back: list[str] = []
    left: list[str] = []
    try:
        for run in dict.fromkeys(held.run for held in reversed(settings.held)):
            done = await settings.put_back(run)
            back += [f"{one['port']} {one['setting']} of run {run}" for one in done["back"]]
            left += [f"{one['port']} {one['setting']} of run {run}: {one['why']}" for one in done["left"]]
    finally:
        settings.close()
    if left:
        raise FailedError(f"not put back: {'; '.join(left)}")
    return back
