"""Labs whose daemon runs playbooks: two hosts on one switch, at need two more on another."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from ..sim.lab import EXAMPLE, Lab, OpenLab, lab, open_lab, opened  # noqa: F401 - fixtures

LEASE = "lease: {ports: all, for_s: 600}"
OTHER = "ocs2:1A-2B,2A-1B"
SECOND = """\
switches:
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 8}}"""
SECOND_HOSTS = """\
hosts:
  h2: {twin: {seed: 3}, nics: {eth0: {ip: 10.1.2.1/32, module: 100g-lr4}}}
  h3: {twin: {seed: 4}, nics: {eth0: {ip: 10.1.3.1/32, module: 100g-lr4}}}"""


def apply(what: str, ready_within_s: float | None = None) -> str:
    ready = "" if ready_within_s is None else f", ready_within_s: {ready_within_s}"
    return f'apply: {{pairs: "{what}"{ready}}}'


def wait(within_s: float = 20) -> str:
    return f"wait: {{for: ready, within_s: {within_s}}}"


def ends(what: str) -> list[str]:
    """The crossconnects of a text, as `Lab.light` gives them."""
    return sorted(what.partition(":")[2].split(","))


@pytest.fixture
def open_wide_lab(tmp_path: Path, open_lab: OpenLab) -> OpenLab:  # noqa: F811 - whoever asks for it has virtual time
    """With two more hosts on a switch of their own."""
    text = EXAMPLE.read_text().replace("switches:", SECOND).replace("hosts:\n", SECOND_HOSTS + "\n", 1)

    def open_wide_lab() -> AbstractAsyncContextManager[Lab]:
        return opened(tmp_path, text + "  - h2.eth0 <-> ocs2.1\n  - h3.eth0 <-> ocs2.2\n")

    return open_wide_lab
