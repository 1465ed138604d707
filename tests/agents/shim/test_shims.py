"""Shims by their names, as entry points declare them; and that a host needs no daemon to have them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hwd_agents.shim import Ask, Go, SendOver
from hwd_agents.shim.shims import find
from hwd_agents.wire import JobJoined, Operation, OperationKind
from hwd_drivers.core.errors import ConfigError

from ...answers import check_answers
from ..played_daemon import JOINED

JOB = msgspec.convert(JOINED, JobJoined)
REDUCE = Operation(group="world", kind=OperationKind.REDUCE, index=0)
SEND = Operation(group="world", kind=OperationKind.SEND, index=0, peer=0)


@pytest.mark.parametrize(("text", "before"), [("ask", Ask()), ("go", Go()), ("", Ask()), ("  ", Ask())])
def test_shims_of_hwd_decide_alike_for_every_operation(text: str, before: object) -> None:
    shim = find(text, 0, JOB)
    assert [shim.before(one) for one in (REDUCE, SEND)] == [before, before]
    assert shim.after(REDUCE) == Go()


def test_shim_of_a_package_is_made_with_its_arguments_rank_and_job(declare: Callable[[str], None]) -> None:
    declare("scripted = acme_shims:SCRIPTED")
    shim: Any = find("scripted from=3", 1, JOB)
    assert (shim.arguments, shim.rank, shim.job) == ({"from": "3"}, 1, JOB)
    assert shim.before(SEND) == SendOver("eth3")


def test_shim_or_argument_that_is_not_there_and_entry_point_that_is_none_are_errors(
    declare: Callable[[str], None],
) -> None:
    def refused(said: str) -> str:
        point, text = said.split(maxsplit=1)
        declare(f"acme = {point}")
        with pytest.raises(ConfigError) as caught:
            find(text, 0, JOB)
        return str(caught.value)

    refusals = Path(__file__).with_name("shim_refusals.txt")
    check_answers(refusals, {"entry point of acme, and what is asked for": refused})


def test_ranks_need_no_part_of_the_daemon() -> None:
    program = "import sys, hwd_agents.shim; print(sorted(one for one in sys.modules if one.split('.')[0] == 'hwd'))"
    said = subprocess.run(
        [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "[]\n"
