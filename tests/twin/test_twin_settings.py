"""Settings of a twin that is served alone."""

import pytest

from hwd.twin.twin_settings import TwinSettings, describe, find_spec
from hwd_drivers.core.errors import ConfigError

MODEL = "polatis-6000"


def test_settings_are_those_of_a_twin_and_of_its_driver_each_described_with_its_default() -> None:
    twin = TwinSettings.parse(
        MODEL, ["size=4x4", "timing=polatis-opus", "seed=7", "in_use=deny", "sessions_max=2", "reports=true"]
    )
    assert (len(twin.capabilities.ends), twin.timing.name, twin.seed) == (8, "polatis-opus", 7)
    assert twin.options == {"in_use": "deny", "sessions_max": 2, "reports": True, "logins": "usual"}
    assert TwinSettings.parse(MODEL, ["size=4x4"]).options == {"logins": "usual"}
    assert TwinSettings.parse(MODEL, ["size=4x4", "logins=anybody"]).options == {"logins": "anybody"}
    assert "usual" in {default for name, default, _ in describe(MODEL)[1] if name == "logins"}
    assert TwinSettings.parse(MODEL, ["size=4x4", "user=no", "password=0042"]).options == {
        "user": "no",
        "password": "0042",
        "logins": "usual",
    }
    assert find_spec(MODEL, driver="polatis-tl1").name == "polatis-tl1"
    assert find_spec(MODEL, port=3082).name == "polatis-tl1"
    assert find_spec(MODEL, port=1).name == "polatis-tl1"
    spec, rows = describe(MODEL)
    told = {name: (default, meaning) for name, default, meaning in rows}
    assert spec.name == "polatis-tl1"
    assert set(told) == {"size", "timing", "light", "seed", *spec.twin_options.model_fields}
    assert told["in_use"][0] == "move"
    assert all(meaning for _, meaning in told.values())


WRONG = {
    "in_sue=deny": "--set in_sue: twins of driver polatis-tl1 have no such setting; did you mean in_use?",
    "siez=4x4": "did you mean size?",
    "in_use=drop": "--set in_use: must be 'move' or 'deny', not 'drop'",
    "sessions_max=0": "--set sessions_max: must be greater than 0, not 0",
    "dark_dbm=low": "--set dark_dbm: must be a number, not 'low'",
    "light=bright": "--set light=bright: not a power in dBm",
    "light=nan": "write a power from -60 to 40 dBm",
    "light=41": "--set light=41: write a power from -60 to 40 dBm",
    "seed=-1": "--set seed=-1: not a whole number",
    "timing=warp": "switch timing 'warp': not known",
    "size=0x4": "size '0x4'",
    "size": "--set size: write it as --set key=value",
    "=4": "--set =4: write it as --set key=value",
}


def test_wrong_setting_or_model_is_bad_input_with_the_nearest_that_is_right() -> None:
    for setting, says in WRONG.items():
        with pytest.raises(ConfigError) as raised:
            TwinSettings.parse(MODEL, ["size=4x4", setting])
        assert says in str(raised.value)
    with pytest.raises(ConfigError, match=r"'polatis-600': no driver knows it\. Did you mean polatis-6000\?"):
        find_spec("polatis-600")
    with pytest.raises(ConfigError, match="driver polatis-tl1 does not know it"):
        find_spec("calient", driver="polatis-tl1")
