"""Scaffold: writes the package of a new driver, outside of this tree, from the fictitious driver in `lumen`."""

import keyword
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.output_file import write_file

OUTSIDE: Final = {
    "pyproject.toml.txt": "pyproject.toml",
    "tests/test_protocol.py.txt": "tests/test_protocol.py",
    "tests/test_conformance.py.txt": "tests/test_conformance.py",
}
INSIDE: Final = ("__init__.py", "protocol.py", "driver.py", "twin.py", "models.py", "README.md")
"""Files of the package; they are a working driver here too, so that lint and type checks cover them."""
SCAFFOLD_FILES: Final = (*OUTSIDE.values(), *(f"hwd_NAME/{name}" for name in INSIDE), "hwd_NAME/py.typed")

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


def scaffold(name: str, into: Path) -> tuple[Path, ...]:
    """Write the package of a driver `name` into the folder `into`; returns its files.

    Raises ConfigError for an invalid name, and where the folder is not empty or cannot be made; FailedError on a full
    disk.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(f"driver {name!r}: not a name. Use small letters, digits and single dashes, such as acme-tl1")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ConfigError(f"{into}: exists already. Name another folder, or remove it")
    source = files(__package__).joinpath("lumen")
    package = f"hwd_{name.replace('-', '_')}"
    texts = {into / target: source.joinpath(path).read_text(encoding="utf-8") for path, target in OUTSIDE.items()}
    texts |= {into / package / path: source.joinpath(path).read_text(encoding="utf-8") for path in INSIDE}
    texts[into / package / "py.typed"] = ""
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{path.parent}: cannot be made: {error.strerror}. Name another folder") from error
        write_file(path, _renamed(text, name, package))
    return tuple(sorted(texts))


def _renamed(text: str, name: str, package: str) -> str:
    camel = "".join(word.capitalize() for word in name.split("-"))
    return text.replace("hwd_lumen", package).replace("lumen", name).replace("Lumen", camel)
