"""Files that are part of hwd: playbooks and example testbeds, in a checkout and in an installed wheel."""

from pathlib import Path

from hwd.config.yaml.file_problem import nearest_name
from hwd_drivers.core.errors import ConfigError

_PACKAGE = Path(__file__).parents[1]
"""A checkout has `playbooks/` next to the package; a wheel has `_playbooks/` inside it."""


def names_of(kind: str) -> list[str]:
    """The names of all files of a kind."""
    return sorted(_files(kind))


def shipped_file(kind: str, name: str) -> Path:
    """The file `name` (with or without `.yaml`) of `playbooks` or `examples`; raises ConfigError that names a
    similar one, or all.
    """
    files = _files(kind)
    stem = name.removesuffix(".yaml")
    if stem in files:
        return files[stem]
    close = nearest_name(stem, sorted(files))
    remark = f"did you mean {close}?" if close else f"there are {', '.join(sorted(files)) or 'none'}"
    raise ConfigError(f"{name}: no such file here, and none of that name among the {kind} of hwd; {remark}")


def _files(kind: str) -> dict[str, Path]:
    """The files of a kind by name; those of the checkout, where there is one."""
    folders = (_PACKAGE / f"_{kind}", _PACKAGE.parent / kind)
    return {found.stem: found for folder in folders for found in folder.glob("*.yaml")}
