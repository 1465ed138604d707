"""Files that are part of hwd: playbooks and example testbeds, in a checkout and in an installed wheel."""

from pathlib import Path

from hwd.config.yaml.file_problem import nearest_name
from hwd_drivers.core.errors import ConfigError

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE.parent, _PACKAGE)
"""A checkout has `playbooks/` next to the package; a wheel has `_playbooks/` inside it."""


def names_of(kind: str) -> list[str]:
    """The names of all files of a kind."""
    return sorted(
        {found.stem for folder in (_PLACES[0] / kind, _PLACES[1] / f"_{kind}") for found in folder.glob("*.yaml")}
    )


def shipped_file(kind: str, name: str) -> Path:
    """The file `name` (with or without `.yaml`) of `playbooks` or `examples`; raises ConfigError that names a
    similar one, or all.
    """
    folders = (_PLACES[0] / kind, _PLACES[1] / f"_{kind}")
    names: set[str] = set()
    for folder in folders:
        path = folder / (name if name.endswith(".yaml") else f"{name}.yaml")
        if path.is_file():
            return path
        names |= {found.stem for found in folder.glob("*.yaml")}
    close = nearest_name(name.removesuffix(".yaml"), sorted(names))
    remark = f"did you mean {close}?" if close else f"there are {', '.join(sorted(names)) or 'none'}"
    raise ConfigError(f"{name}: no such file here, and none of that name among the {kind} of hwd; {remark}")
