"""The jobs of a testbed file: which programs may run as the ranks of a job, where, and under which control plane.

jobs:
  train: {command: [/usr/bin/python3, /srv/train.py], user: lab, hosts: [h0, h1], plane: static topology=ring}
"""

from collections.abc import Mapping
from typing import Final

from hwd.config.planes.examined import arguments_of, try_arguments
from hwd.config.testbed.programs import on_hosts
from hwd.config.testbed.sections import Sections
from hwd.config.testbed.testbed_schema import GroupEntry, JobsEntry
from hwd.config.yaml.file_problem import Where, nearest
from hwd.model.plane import CommunicationGroup, Rank
from hwd.model.testbed import Host, JobEntry
from hwd_drivers.core.errors import HwdError

WORLD: Final = "world"
"""The group of all ranks, where no groups are named."""
RANKS_MOST: Final = 256


def read_jobs(sections: Sections, hosts: Mapping[str, Host]) -> dict[str, JobEntry]:
    """Read the section `jobs`."""
    found = {}
    for name, where, entry in on_hosts(sections, "jobs", JobsEntry, hosts):
        ranks = tuple(
            Rank(number=at * entry.ranks_per_host + gpu, host=host, gpu=gpu if entry.ranks_per_host > 1 else None)
            for at, host in enumerate(entry.hosts)
            for gpu in range(entry.ranks_per_host)
        )
        if len(ranks) > RANKS_MOST:
            sections.reading.add(where, f"{len(ranks)} ranks, over the {RANKS_MOST} that a job may have")
        plane, arguments = _plane(sections, (*where, "plane"), entry.plane)
        found[name] = JobEntry(
            name=name,
            ranks=ranks,
            groups=_groups(sections, where, entry, len(ranks)),
            plane=plane,
            plane_arguments=arguments,
            **entry.model_dump(exclude={"hosts", "ranks_per_host", "groups", "plane"}),
        )
    return found


def _plane(sections: Sections, where: Where, text: str) -> tuple[str, dict[str, str]]:
    name, *words = text.split() or [""]
    arguments = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            sections.reading.add(where, f"{word!r}: write an argument as {key}=VALUE")
        if key in arguments:
            sections.reading.add(where, f"argument {key} is named twice")
        arguments[key] = value
    try:
        known = arguments_of(name)
    except HwdError as error:
        sections.reading.add(where, f"{error}; its jobs are refused until it is there", warning=True)
        return name, arguments
    strange = [key for key in arguments if key not in known]
    for key in strange:
        there = nearest(key, known) or "it takes none"
        sections.reading.add(where, f"plane {name}: no argument {key!r}; {there}")
    if not strange:
        try:
            try_arguments(name, arguments)
        except HwdError as error:
            sections.reading.add(where, str(error))
    return name, arguments


def _groups(sections: Sections, where: Where, entry: JobsEntry, ranks: int) -> dict[str, CommunicationGroup]:
    if not entry.groups:
        return {WORLD: CommunicationGroup(name=WORLD, ranks=tuple(range(ranks)))}
    found = {}
    for name, group in entry.groups.items():
        members, dimension = (group.ranks, group.dimension) if isinstance(group, GroupEntry) else (group, "")
        at = (*where, "groups", name)
        if strange := [rank for rank in members if rank >= ranks]:
            sections.reading.add(at, f"there is no rank {strange[0]}: the job has {ranks}, from 0 on")
        if not members or len({*members}) < len(members):
            sections.reading.add(at, "name each rank of the group once, and at least one")
        found[name] = CommunicationGroup(name=name, ranks=members, dimension=dimension)
    return found
