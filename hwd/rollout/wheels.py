"""Bundle: the wheels that a host needs, made and fetched on the operator's machine, since a host may have no access to
an index.
"""

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.own_python import own_python

AGENT: Final = "hwd-agents"
OWN: Final = {"hwd-drivers": "hwd_drivers", AGENT: "hwd_agents"}
"""Our distributions that a host gets, and their packages."""
OLDEST_GLIBC: Final = 5
"""manylinux1 is glibc 2.5; a host takes wheels for any glibc up to its own (PEP 600)."""
MUSL_NEWEST: Final = 5
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in our wheels, so that the same code is the same wheel."""
FETCH_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The requirements of wheels: CPython `python`, such as 3.11, on a Linux with this `machine` and C library."""

    python: str
    machine: str
    libc: str
    libc_version: str

    def __str__(self) -> str:
        return f"Python {self.python} on {self.machine}, {self.libc} {self.libc_version}"

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> "Target":
        """Read the target from the facts of `hwd.rollout.onhost.facts.look`."""
        libc = facts["libc"]
        assert isinstance(libc, list)
        name, version = libc if libc[0] else ("musl", f"1.{MUSL_NEWEST}")
        python = ".".join(str(facts["python"]).split(".")[:2])
        return cls(python=python, machine=str(facts["machine"]), libc=str(name), libc_version=str(version))

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platform tags, the newest first."""
        major, _, minor = self.libc_version.partition(".")
        newest = int(minor.partition(".")[0] or 0)
        if self.libc != "glibc":
            return tuple(f"musllinux_1_{one}_{self.machine}" for one in range(min(newest, MUSL_NEWEST), 0, -1))
        tags = [f"manylinux_{major}_{one}_{self.machine}" for one in range(newest, OLDEST_GLIBC - 1, -1)]
        legacy = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
        tags += [f"{name}_{self.machine}" for minor, name in legacy.items() if minor <= newest]
        return (*tags, f"linux_{self.machine}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle of wheels; `id` names the environment: the agent's version and a digest of every wheel. `spec` is the
    argument of pip.
    """

    id: str
    version: str
    wheels: tuple[Path, ...]
    spec: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        return sum(wheel.stat().st_size for wheel in self.wheels)


def make_bundle(target: Target, *, extras: Sequence[str], cache: Path, say: Callable[[str], None]) -> Bundle:
    """Build our wheels, fetch the others where the cache lacks them. Blocking. `extras` are those of hwd-drivers that
    the host needs.

    Raises FailedError with pip's message where a fetch fails, ConfigError where pip or hwd itself is not installed
    here.
    """
    folder = cache / "wheels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        own = [own_wheel(name, folder) for name in OWN]
        drivers = f"hwd-drivers[{','.join(extras)}]" if extras else "hwd-drivers"
        needs = _needs(target, own, drivers, folder, say)
    except OSError as error:
        raise FailedError(
            f"{error.filename or folder}: cannot store wheels there: {error.strerror}. "
            "Free some room, or name another place with XDG_CACHE_HOME"
        ) from error
    wheels = tuple(sorted((*own, *needs), key=lambda path: path.name))
    digest = hashlib.sha256(f"{target.python} {target.machine} {drivers}".encode())
    for wheel in wheels:
        digest.update(wheel.name.encode() + hashlib.sha256(wheel.read_bytes()).digest())
    version = importlib.metadata.version(AGENT)
    return Bundle(
        id=f"{version}-{digest.hexdigest()[:12]}",
        version=version,
        wheels=wheels,
        spec=(f"{AGENT}=={version}", f"{drivers}=={importlib.metadata.version('hwd-drivers')}"),
    )


def own_wheel(distribution: str, folder: Path) -> Path:
    """The wheel of one of our distributions as it is installed here, editable or not: the code that runs
    here is deployed.
    """
    package = OWN[distribution]
    try:
        installed = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigError(
            f"{distribution} is not installed in {sys.prefix}. Install it: pip install {distribution}"
        ) from error
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ConfigError(f"{package} cannot be found in {sys.prefix}. Reinstall {distribution}")
    source = Path(found.submodule_search_locations[0])
    version = installed.version
    info = f"{package}-{version}.dist-info"
    contents = {
        f"{package}/{path.relative_to(source).as_posix()}": path.read_bytes()
        for path in sorted(source.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in ("METADATA", "entry_points.txt"):
        if (text := installed.read_text(name)) is not None:
            contents[f"{info}/{name}"] = text.encode()
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: hwd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{name},sha256={_base64(content)},{len(content)}" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{package}-{version}-py3-none-any.whl"
    fd, part = tempfile.mkstemp(dir=folder, suffix=".part")
    with open(fd, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    os.replace(part, path)
    return path


def _needs(target: Target, own: Sequence[Path], drivers: str, folder: Path, say: Callable[[str], None]) -> list[Path]:
    """The dependencies of ours on the target, pip included; fetched once for each set of dependencies."""
    pins = _pins()
    metadata = "".join(importlib.metadata.distribution(name).read_text("METADATA") or "" for name in OWN)
    key = json.dumps([target.python, target.platforms, drivers, metadata, pins])
    kept = folder / hashlib.sha256(key.encode()).hexdigest()[:16]
    if not kept.is_dir():
        say(f"fetching wheels for {target}")
        part = Path(tempfile.mkdtemp(dir=folder, suffix=".part"))
        try:
            _fetch(target, own, drivers, part, pins)
            for wheel in own:
                (part / wheel.name).unlink()
            if not kept.is_dir():  # another roll-out may have been quicker: its wheels are as good
                os.replace(part, kept)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return sorted(kept.glob("*.whl"))


def _fetch(target: Target, own: Sequence[Path], drivers: str, folder: Path, pins: Sequence[str]) -> None:
    """Fetch the versions that are installed here, as far as there are such wheels for the target; else
    others that fit.
    """
    if importlib.util.find_spec("pip") is None:
        raise ConfigError(f"pip is not installed in {sys.prefix}, and wheels are fetched with it: python -m ensurepip")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins))
    extras = drivers.removeprefix("hwd-drivers")
    wanted = [f"{path}{extras if path.name.startswith('hwd_drivers') else ''}" for path in own]
    command = own_python("-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    command += ["--only-binary=:all:", "--dest", str(folder), "--implementation", "cp"]
    command += ["--python-version", target.python, "--abi", f"cp{target.python.replace('.', '')}", "--abi", "abi3"]
    command += ["--abi", "none", *(word for tag in target.platforms for word in ("--platform", tag)), *wanted, "pip"]
    words = ""
    for more in (["--constraint", str(constraints)], []):
        try:
            done = subprocess.run(
                command + more, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_S, check=False
            )
        except subprocess.TimeoutExpired:
            words = f"pip did not end in {FETCH_S:g} s"
            break
        if done.returncode == 0:
            constraints.unlink()
            return
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        words = " ".join(errors[-2:]) or done.stderr.strip()[-300:]
    raise FailedError(
        f"wheels for {target} cannot be fetched: {words}. Can this machine reach the package index? "
        "pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS) apply"
    )


def _pins() -> list[str]:
    """The versions that are installed here: the agent was tested with them."""
    found = {one.metadata["Name"]: one.version for one in importlib.metadata.distributions()}
    left_out = {*OWN, "hwd-daemon", "pip", "setuptools"}
    return sorted(f"{name}=={version}" for name, version in found.items() if name and name not in left_out)


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
