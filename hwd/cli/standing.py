"""Why a run stands still, in a few words."""

from typing import Any


def standing(status: dict[str, Any]) -> str:
    """Why a run does not move: it waits, or somebody paused it; empty where it moves or has ended."""
    if status["state"] == "queued":
        return f"waits for {', '.join(status['waits_for'])}" if status["waits_for"] else "waits"
    if status["state"] == "paused":
        return f"paused by {status['by']}; hwd resume {status['run']}"
    return ""
