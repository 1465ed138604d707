"""Drivers are found by their entry points, and unknown names get the nearest known one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.devices import registry
from hwd_drivers.devices.registry import NoOptions
from hwd_drivers.transports.dial import TcpDialer

from ..parts import context


def test_the_polatis_driver_is_installed_under_its_name() -> None:
    assert "polatis-tl1" in registry.names()
    assert registry.find("polatis-tl1").name == "polatis-tl1"


def test_an_unknown_driver_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"driver 'polatis-tl': not installed\. Did you mean polatis-tl1\?"):
        registry.find("polatis-tl")


def test_a_driver_that_is_like_none_is_refused_with_all_names() -> None:
    with pytest.raises(ConfigError, match=r"There are: .*polatis-tl1"):
        registry.find("zzz")


def test_a_session_does_not_search_all_packages_for_its_driver(work_of: Callable[[Callable[[], object]], int]) -> None:
    registry.find("polatis-tl1")
    assert work_of(lambda: registry.find("polatis-tl1")) < 2_000, "it was 18,000, at each session with a switch"


def test_a_driver_that_is_installed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="not installed"):
        registry.find("acme-x2")
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hwd-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hwd.drivers]\nacme-x2 = nothing:driver\n")
    assert registry.distribution_of("acme-x2") == "hwd-acme"


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"polatis-60OO.*Did you mean polatis-6000\?"):
        registry.find("polatis-tl1").capabilities("polatis-60OO", "8x8")


def test_options_of_another_type_than_the_drivers_are_a_bug_that_names_both_types() -> None:
    spec = registry.find("polatis-tl1")
    opening = context(spec.name, "polatis-6000", "8x8", TcpDialer(), SystemClock(), options=NoOptions())
    assert opening.options_as(NoOptions) is opening.options
    with pytest.raises(BugError, match=f"ocs1: options are NoOptions, not {spec.options.__name__}"):
        opening.options_as(spec.options)
