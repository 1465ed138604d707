"""What a testbed file says of the memory of modules, and what the agents of their hosts are told of it."""

from collections.abc import Callable

import pytest

from hwd.bus.module_timings import declared_timings
from hwd.config.testbed.testbed import Loaded
from hwd.model.testbed import Module, ModuleStandard, Testbed
from hwd.twin.agent_config import agent_config
from hwd_agents.process.config import ModuleTiming, SourcesConfig, TwinConfig

Load = Callable[[str], Loaded]


def written(*modules: str) -> str:
    nics = ", ".join(f"eth{number}: {{module: {module}}}" for number, module in enumerate(modules))
    return f"""testbed: small
switches: {{ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {{timing: ideal}}}}}}
hosts:
  h0: {{twin: {{timing: ideal}}, nics: {{{nics}}}}}
"""


def modules(testbed: Testbed) -> list[Module]:
    return [port.module for port in testbed.hosts["h0"].ports]


@pytest.mark.parametrize(
    ("module", "standard"),
    [
        ("100g-lr4", ModuleStandard.SFF_8636),
        ("25g-lr", ModuleStandard.SFF_8472),
        ("10g-lr", ModuleStandard.SFF_8472),
        ("400g-fr4", ModuleStandard.CMIS),
        ("800g-dr8", ModuleStandard.CMIS),
        ("{type: 100g-fr1, memory: cmis}", ModuleStandard.CMIS),
        ("{type: 100g-dr1, memory: sff-8472}", ModuleStandard.SFF_8472),
        (
            "{type: ours, lanes: 4, parallel: true, tx_min_dbm: -3, tx_max_dbm: 3, rx_min_dbm: -9, rx_max_dbm: 3}",
            ModuleStandard.SFF_8636,
        ),
        (
            "{type: ours, lanes: 8, parallel: true, tx_min_dbm: -3, tx_max_dbm: 3, rx_min_dbm: -9, rx_max_dbm: 3}",
            ModuleStandard.CMIS,
        ),
    ],
)
def test_memory_is_that_of_the_form_factor_where_nothing_else_is_said(
    load: Load, module: str, standard: ModuleStandard
) -> None:
    assert [one.standard for one in modules(load(written(module)).require())] == [standard]


def test_agents_are_told_how_late_each_part_is_and_nothing_of_what_is_not_known(load: Load) -> None:
    testbed = load(
        written(
            "{type: 100g-lr4, part: Q1, los_s: 0.1}",
            "{type: 100g-lr4, part: Q1, los_s: 0.1}",
            "{type: 25g-lr, part: S1, los_s: 0.1, monitor_s: 0.05}",
            "{type: 25g-lr, part: S2}",
            "100g-lr4",
        )
    ).require()
    declared = {"Q1": ModuleTiming(los_s=0.1), "S1": ModuleTiming(los_s=0.1, monitor_s=0.05)}
    assert declared_timings(testbed.hosts["h0"]) == declared
    sources = SourcesConfig(twin=TwinConfig(address="mem:h0"))
    prompt = ModuleTiming(los_s=0.0, monitor_s=0.0)
    told = agent_config(testbed, "h0", broker="mqtt://127.0.0.1", sources=sources).modules
    assert told == {**declared, "S2": prompt, "100g-lr4": prompt}
