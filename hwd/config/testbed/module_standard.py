"""The memory of a module in a testbed file: its standard, its part number, and the delay of its readings."""

from dataclasses import dataclass, field
from typing import Final

from hwd.config.testbed.module_types import MODULE_TYPES
from hwd.config.testbed.sections import Sections
from hwd.config.testbed.testbed_schema import ModuleEntry
from hwd.config.yaml.file_problem import Where
from hwd.model.testbed import ModuleStandard

LANES_MOST: Final = {ModuleStandard.SFF_8472: 1, ModuleStandard.SFF_8636: 4, ModuleStandard.CMIS: 32}
"""The most lanes that the layout has room for."""


@dataclass(slots=True)
class ModuleMemories:
    """Checks each, and that no two entries give one part different delays."""

    sections: Sections
    timings: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)

    def read(self, entry: ModuleEntry, lanes: int, where: Where) -> ModuleStandard | None:
        """The standard; None where something is wrong, which is reported."""
        standard = _standard(entry, lanes)
        problems = []
        if lanes > LANES_MOST[standard]:
            problems.append(
                ("memory", f"{standard} has room for {LANES_MOST[standard]} lanes, and this module has {lanes}")
            )
        timing = (entry.los_s, entry.monitor_s)
        if timing != (None, None):
            if entry.part is None:
                name = "los_s" if entry.los_s is not None else "monitor_s"
                problems.append(
                    (
                        name,
                        "applies to a part: add part, the number in the module's memory (an agent's birth has it)",
                    )
                )
            elif self.timings.setdefault(entry.part, timing) != timing:
                problems.append(("part", f"{entry.part} has another los_s or monitor_s elsewhere in this file"))
        for name, text in problems:
            self.sections.reading.add((*where, name), text)
        return None if problems else standard


def _standard(entry: ModuleEntry, lanes: int) -> ModuleStandard:
    """The standard that the entry states, else that of its type; for a custom module a QSFP standard where its lanes
    fit.
    """
    if entry.memory is not None:
        return entry.memory
    if entry.type in MODULE_TYPES:
        return MODULE_TYPES[entry.type].standard
    return ModuleStandard.SFF_8636 if lanes <= LANES_MOST[ModuleStandard.SFF_8636] else ModuleStandard.CMIS
