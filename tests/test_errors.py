"""Errors between processes: each class of ours is pickled with its message and all its attributes."""

import importlib
import multiprocessing
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import pytest

from hwd.config.yaml.tree import _Limit
from hwd.fabric.conflict import ConflictError
from hwd.planes.breach import Breach, PlaneError
from hwd.ports.claim import Claim
from hwd.ports.ledger import ClaimedError
from hwd.ports.rules import Reason
from hwd.reconfigure.transfers import InFlightError
from hwd.rollout.host_report import CutOffError, RolledBackError
from hwd_agents.bus.mqtt import _ConnectionLost
from hwd_agents.sources.kernel.netlink_requests import KernelRefusal
from hwd_drivers.codecs.scpi import ScpiError
from hwd_drivers.core.errors import DeviceError, LoginError, NotRolledBackError
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.families.calient.rest.front import NotThereError
from hwd_drivers.families.polatis.netconf.messages import RpcError
from hwd_drivers.families.polatis.netconf.refusals import RefusedRpc
from hwd_drivers.families.sonic.unit import CommandRefused
from hwd_drivers.twins.tl1_session import DenyError

ROOTS = {"hwd": "hwd", "hwd_drivers": "drivers/hwd_drivers", "hwd_agents": "agents/hwd_agents"}
TREE = Path(__file__).parent.parent
CLASS = re.compile(r"^class (\w+)\(([\w., ]+)\):", re.MULTILINE)
REFUSAL = {"device": "ocs1", "command": "ENT-PATCH", "code": "SROF", "text": "busy"}

EXAMPLES: dict[type[BaseException], BaseException] = {
    type(error): error
    for error in (
        DeviceError("ocs1: cannot connect", **REFUSAL),
        LoginError("ocs1: cannot log in", **REFUSAL),
        NotRolledBackError("late", switches=["ocs1", "ocs2"]),
        ConflictError("no way", (Crossconnect.parse("1A-2B"),)),
        PlaneError(next(iter(Breach)), "a third action"),
        ClaimedError("held", Claim(id="k3v9", ports=frozenset({"ocs1.1"}), owner="ada", reason=Reason.LEASE)),
        InFlightError("sends", frozenset({"ocs1.1"})),
        CutOffError("h0", "Deploy it again"),
        RolledBackError("the earlier agent runs", "0.1.0"),
        _ConnectionLost("cannot connect", refused=True),
        KernelRefusal("no such port", number=19),
        ScpiError(-113, "OSW"),
        NotThereError("no such path"),
        DenyError("IIAC", "no port"),
        UnitError(next(iter(Wrong)), "no port", code="IIAC"),
        RefusedRpc(RpcError(tag="data-exists", message="in use", info={"port": "1"})),
        CommandRefused("no such port", status=2),
        _Limit(7, "nested over 64 levels"),
    )
}
"""Of classes whose constructors take more than a message."""


def of_ours() -> Iterator[type[BaseException]]:
    """All classes of exceptions of the three distributions; only the modules that define some are imported."""
    found = [
        (name, {base.strip().rpartition(".")[2] for base in bases.split(",")}, path, package)
        for package, folder in ROOTS.items()
        for path in sorted((TREE / folder).rglob("*.py"))
        for name, bases in CLASS.findall(path.read_text())
    ]
    kinds = {"Exception", "RuntimeError", "ValueError", "OSError", "BaseException"}
    while more := {name for name, bases, _, _ in found if bases & kinds} - kinds:
        kinds |= more
    for name, _, path, package in found:
        if name in kinds:
            inner = path.relative_to(TREE / ROOTS[package]).with_suffix("").parts
            yield getattr(importlib.import_module(".".join((package, *inner))), name)


def test_errors_survive_pickling_with_all_their_attributes() -> None:
    kinds = [*of_ours()]
    assert {*EXAMPLES} <= {*kinds}
    for kind in kinds:
        takes_more = isinstance(kind.__init__, FunctionType)
        assert kind in EXAMPLES or not takes_more, f"{kind}: add an example of it"
        error = EXAMPLES[kind] if takes_more else kind("ocs1: cannot, since it may not")
        error.add_note("while h0 waited")
        found = pickle.loads(pickle.dumps(error))
        assert (type(found), str(found), found.args, vars(found)) == (kind, str(error), error.args, vars(error))


def refuse(_: Any) -> NoReturn:
    raise LoginError("ocs1: cannot log in", **REFUSAL)


def test_error_of_a_device_comes_back_from_a_pool_of_processes() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool, pytest.raises(LoginError) as raised:
        pool.map_async(refuse, [1]).get(timeout=20)
    assert vars(raised.value) == REFUSAL
