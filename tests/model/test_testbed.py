"""Testbeds as the model has them, and what differs between two, said by the keys that the file has."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from hwd.config.testbed import testbed_schema as schema
from hwd.config.testbed.testbed_schema import InterlocksEntry
from hwd.daemon.installed_drivers import load_text
from hwd.model import testbed_diff as diff
from hwd.model.interlock import InterlockRules
from hwd.model.nic_port import NicPortId
from hwd.model.rules import LeaseRules, RetentionRules, TransferRules
from hwd.model.testbed import (
    Host,
    HostTwin,
    JobEntry,
    Module,
    NicPort,
    PacketSwitch,
    Passive,
    Program,
    Strand,
    Switch,
    SwitchTwin,
    Testbed,
)
from hwd.model.testbed_diff import YAML
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import FibreEnd, Side

from ..answers import check_answers
from ..modules import LR4


def port(*, parallel: bool = False) -> NicPort:
    return NicPort(id=NicPortId(host="h0", port="eth0"), module=replace(LR4, parallel=parallel), interface="eth0")


def test_lanes_share_a_fibre_or_have_one_each_and_strands_lead_from_each_end_to_the_other() -> None:
    assert [str(end) for end in port().ends(Side.TX)] == ["h0.eth0.tx"]
    assert [str(end) for end in port(parallel=True).ends(Side.RX)][1:3] == ["h0.eth0/2.rx", "h0.eth0/3.rx"]
    assert port().module.budget_db == pytest.approx(6.3)
    tx = FibreEnd(owner="h0", port="eth0", side=Side.TX)
    into = FibreEnd(owner="ocs1", port="1", side=Side.A)
    strand = Strand(ends=(tx, into))
    assert (strand.other(tx), strand.other(into), str(strand)) == (into, tx, "h0.eth0.tx - ocs1.1A")


def test_port_that_is_not_there_is_named_and_every_field_of_a_difference_by_its_key() -> None:
    testbed = Testbed(name="t", switches={}, hosts={"h0": Host(name="h0", ports=(port(),))}, strands=())
    assert testbed.port(NicPortId.parse("h0.eth0")).interface == "eth0"
    with pytest.raises(ConfigError, match=r"h1\.eth0: no such NIC port in testbed t; it has h0\.eth0"):
        testbed.port(NicPortId.parse("h1.eth0"))
    for of, entry in ENTRIES:
        names = {YAML.get(of, {}).get(one.name, one.name) for one in fields(of) if one.name not in OUTSIDE}
        assert names <= keys_of(entry), (of, sorted(names - keys_of(entry)))
    testbed = load_text(TEXT, file="desk.yaml").require()
    (change,) = diff.testbed_diff(testbed, replace(testbed, name="table"))
    assert "the name cannot change while the daemon runs" in change.obstacle
    assert "`testbed: desk`" in change.obstacle


OUTSIDE = {"name", "id", "capabilities", "ports", "ends", "source", "overridable"}
"""Fields that are no key of their own: they are said in other words, or not at all."""
ENTRIES: list[tuple[type, type[BaseModel]]] = [
    (Switch, schema.SwitchEntry),
    (SwitchTwin, schema.SwitchTwinEntry),
    (Host, schema.HostEntry),
    (HostTwin, schema.HostTwinEntry),
    (NicPort, schema.NicEntry),
    (Module, schema.ModuleEntry),
    (PacketSwitch, schema.PacketSwitchEntry),
    (Passive, schema.PassiveEntry),
    (Strand, schema.FibreEntry),
    (LeaseRules, schema.LeasesEntry),
    (TransferRules, schema.TransfersEntry),
    (RetentionRules, schema.RetentionEntry),
    (InterlockRules, InterlocksEntry),
    (JobEntry, schema.JobsEntry),
    (Program, schema.ProgramEntry),
]


def keys_of(entry: type[BaseModel]) -> set[str]:
    """`login.user`: the keys of an entry and of the entries in it."""
    found = set()
    for name, field in entry.model_fields.items():
        key = field.alias or name
        found.add(key)
        inside = [
            one for one in (field.annotation, *getattr(field.annotation, "__args__", ())) if isinstance(one, type)
        ]
        for one in inside:
            if issubclass(one, BaseModel):
                found |= {f"{key}.{below}" for below in keys_of(one)}
    return found


TEXT = """\
testbed: desk
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {seed: 1},
    login: {user: a, password: {env: P}}}
hosts:
  h0: {twin: {seed: 1}, nics: {eth0: {module: 100g-lr4}}}
fibres:
  - {from: h0.eth0, to: ocs1.1, loss_db: 0.4}
"""


def changed(text: str) -> str:
    old, _, new = text.partition("\n---\n")
    assert TEXT.count(old) == 1
    before, after = (load_text(text, file="desk.yaml").require() for text in (TEXT, TEXT.replace(old, new)))
    (change,) = diff.testbed_diff(before, after)
    return str(change)


def test_a_change_is_said_by_the_keys_of_the_file() -> None:
    """What stands in the file, and below `---` what stands there then."""
    check_answers(Path(__file__).with_name("changes.txt"), {"in place of the first": changed})
