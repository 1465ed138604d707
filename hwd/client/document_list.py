"""Documents that a daemon sends: one of them, and those that its event stream retains."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hwd_drivers.core.documents import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentList:
    """Documents after an id. `last` is the id to continue after; `missed` counts those that are no longer retained."""

    last: str
    missed: int
    documents: tuple[Document, ...]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            last=data["last"],
            missed=data["missed"],
            documents=tuple(document_of(one) for one in data["documents"]),
        )

    def __str__(self) -> str:
        return f"{len(self.documents)} documents until {self.last}" + (f", {self.missed} missed" if self.missed else "")


def document_of(data: Mapping[str, Any]) -> Document:
    """Make a document from its JSON. Raises ProtocolError where it is none."""
    from hwd.model.kinds import read_document  # 20 ms, which `hwd status` does not need

    return read_document(data)
