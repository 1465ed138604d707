"""own_version: the version of this agent, as it is installed."""

import sys
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "hwd-agents"
_KEY: Final = "Version: "


def own_version() -> str:
    """Read it from the first METADATA on the path (PyPA, "Recording installed projects"), else by importlib.metadata.

    That module takes 1.8 MB.

    Raises importlib.metadata.PackageNotFoundError where nothing is installed.
    """
    for folder in sys.path:
        for metadata in Path(folder).glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info/METADATA"):
            for line in metadata.read_text().splitlines():
                if line.startswith(_KEY):
                    return line.removeprefix(_KEY)
    from importlib.metadata import version

    return version(DISTRIBUTION)
