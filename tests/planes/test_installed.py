"""Planes of other packages: the example, as a wheel beside hwd."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hwd.config import planes
from hwd.planes.static import Static
from hwd_drivers.core.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "examples" / "rotor-plane"


def test_plane_of_a_wheel_is_found_by_its_name_and_passes(tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", tmp_path, EXAMPLE], check=True, timeout=120)
    program = (
        "from hwd.config import planes; from hwd.testing.check_plane import check_plane; "
        "print(planes.names(), check_plane(lambda: planes.make('rotor', {'period_s': '0.2'}), jobs=20))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout == "('mfabric', 'rotor', 'static') 20\n"


def test_plane_is_made_with_its_arguments() -> None:
    assert isinstance(planes.make("static", {"topology": "pairs"}), Static)
    with pytest.raises(ConfigError, match="plane 'sttic': unknown; did you mean static"):
        planes.make("sttic", {})
    with pytest.raises(ConfigError, match="plane static: no argument 'topolgy'; did you mean topology"):
        planes.make("static", {"topolgy": "ring"})
