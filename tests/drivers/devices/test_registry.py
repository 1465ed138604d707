"""Drivers are found by their entry points, and unknown names get the nearest known one."""

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.devices import registry
from hwd_drivers.devices.registry import NoOptions, OpenContext
from hwd_drivers.transports.dial import TcpDialer


def test_the_polatis_driver_is_installed_under_its_name() -> None:
    assert "polatis-tl1" in registry.names()
    assert registry.find("polatis-tl1").name == "polatis-tl1"


def test_an_unknown_driver_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"driver 'polatis-tl': not installed\. Did you mean polatis-tl1\?"):
        registry.find("polatis-tl")


def test_a_driver_that_is_like_none_is_refused_with_all_names() -> None:
    with pytest.raises(ConfigError, match=r"There are: .*polatis-tl1"):
        registry.find("zzz")


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"polatis-60OO.*Did you mean polatis-6000\?"):
        registry.find("polatis-tl1").capabilities("polatis-60OO", "8x8")


def test_options_of_another_type_than_the_drivers_are_a_bug_that_names_both_types() -> None:
    spec = registry.find("polatis-tl1")
    context = OpenContext(
        name="ocs1",
        address="10.0.0.9",
        dialer=TcpDialer(),
        clock=SystemClock(),
        sink=print,
        user=None,
        password=None,
        options=NoOptions(),
        capabilities=spec.capabilities("polatis-6000", "8x8"),
    )
    assert context.options_as(NoOptions) is context.options
    with pytest.raises(BugError, match=f"ocs1: options are NoOptions, not {spec.options.__name__}"):
        context.options_as(spec.options)
