"""The programs of a testbed file: what may run on its hosts, and as whom.

programs:
  ping: {command: [/usr/bin/ping, -c, "3"], user: nobody, arguments: true}
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from hwd.config.testbed.sections import Sections, check_name
from hwd.config.testbed.testbed_schema import JobsEntry, ProgramEntry
from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.validate import validate
from hwd.model.testbed import Host, Program

E = TypeVar("E", ProgramEntry, JobsEntry)


def read_programs(sections: Sections, hosts: Mapping[str, Host]) -> dict[str, Program]:
    """Read the section `programs`."""
    return {
        name: Program(name=name, **entry.model_dump())
        for name, _, entry in on_hosts(sections, "programs", ProgramEntry, hosts)
    }


def on_hosts(sections: Sections, key: str, kind: type[E], hosts: Mapping[str, Host]) -> Iterator[tuple[str, Where, E]]:
    """The sound entries of a section of what runs on hosts: name, place and entry; problems are told."""
    section = sections.root.child(key)
    for name, node in (section.mapping() if section else {}).items():
        where: Where = (key, name)
        check_name(sections.reading, where)
        if (entry := validate(kind, node, where, sections.reading)) is None:
            continue
        for host in entry.hosts or ():
            if host not in hosts and host not in sections.unsure:
                sections.reading.add((*where, "hosts"), f"{host} is no host; {nearest(host, hosts)}")
        yield name, where, entry
