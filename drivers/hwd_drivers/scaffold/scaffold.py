"""Scaffold: writes the package of a new driver, outside of this tree, from a fictitious one in a folder here."""

import keyword
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.output_file import write_file

MATRIX: Final = ("__init__.py", "protocol.py", "driver.py", "twin.py", "models.py", "README.md")
"""Files of the package; they are a working driver here too, so that lint and type checks cover them."""
SELECTOR: Final = ("__init__.py", "part.py", "README.md")
"""Files of the package of a 1xN on a serial line."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


def scaffold(name: str, into: Path, *, selector: bool = False) -> tuple[Path, ...]:
    """Write the package of a driver `name` into the folder `into`; returns its files.

    `selector`: of a 1xN on a serial line, else of a matrix. Raises ConfigError for an invalid name, and where the
    folder is not empty or cannot be made; FailedError on a full disk.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(f"driver {name!r}: not a name. Use small letters, digits and single dashes, such as acme-tl1")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ConfigError(f"{into}: exists already. Name another folder, or remove it")
    package = f"hwd_{name.replace('-', '_')}"
    texts = {
        into / path.format(package=package): _renamed(source.read_text(encoding="utf-8"), name, package)
        for path, source in _sources(selector).items()
    }
    texts[into / package / "py.typed"] = ""
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{path.parent}: cannot be made: {error.strerror}. Name another folder") from error
        write_file(path, text)
    return tuple(sorted(texts))


def _sources(selector: bool) -> dict[str, Traversable]:
    """The template of each file, by its path; the project and the test of conformance are the same for both."""
    matrix = files(__package__).joinpath("lumen")
    mine = files(__package__).joinpath("selector") if selector else matrix
    test = "tests/test_table.py" if selector else "tests/test_protocol.py"
    return {
        "pyproject.toml": matrix.joinpath("pyproject.toml.txt"),
        "tests/test_conformance.py": matrix.joinpath("tests/test_conformance.py.txt"),
        test: mine.joinpath(f"{test}.txt"),
        **{f"{{package}}/{path}": mine.joinpath(path) for path in (SELECTOR if selector else MATRIX)},
    }


def _renamed(text: str, name: str, package: str) -> str:
    camel = "".join(word.capitalize() for word in name.split("-"))
    return text.replace("hwd_lumen", package).replace("lumen", name).replace("Lumen", camel)
