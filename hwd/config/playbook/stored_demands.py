"""The stored demands that steps of a playbook name, for readers that cannot wait for the records."""

from dataclasses import dataclass, field
from typing import Final

from hwd.model.demand import DemandKey, DemandMatrix
from hwd_drivers.core.errors import ConfigError

MOST: Final = 256
"""Matrices that one playbook reads: each is up to 8 MB in memory."""


@dataclass(slots=True)
class StoredDemands:
    """Who reads a playbook fills `known` with what is in `missing` after a reading, and reads it again.

    `known`: the matrix, or why there is none.
    """

    known: dict[DemandKey, DemandMatrix | str] = field(default_factory=dict)
    missing: list[DemandKey] = field(default_factory=list)

    def find(self, key: DemandKey) -> DemandMatrix | None:
        """The matrix of a key; None where it is not known yet. Raises ConfigError where there is none, or the playbook
        names too many.
        """
        found = self.known.get(key)
        if isinstance(found, str):
            raise ConfigError(found)
        if found is None and key not in self.missing:
            if len(self.known) + len(self.missing) >= MOST:
                raise ConfigError(f"{key}: a playbook reads at most {MOST} layers and micro-batches of stored demands")
            self.missing.append(key)
        return found
