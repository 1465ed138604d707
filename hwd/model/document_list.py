"""Documents of the records, as callers see them."""

from typing import Any, Self

from msgspec import field
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.plural import plural
from hwd_drivers.core.documents import Document


class DocumentJson(ApiValue, frozen=True, kw_only=True):
    """A document as it is sent. `data`: the fields of its kind; see `Document` for the rest."""

    kind: str
    at_ns: int
    wall_ns: int
    data: dict[str, Any]

    @classmethod
    def of(cls, document: Document) -> Self:
        return cls(kind=document.kind, at_ns=document.at_ns, wall_ns=document.wall_ns, data=document.fact.to_data())

    def document(self) -> Document:
        """The document, with the type of its kind."""
        from hwd.model.kinds import read_fact  # 20 ms, which `hwd status` does not need

        return Document(at_ns=self.at_ns, wall_ns=self.wall_ns, fact=read_fact(self.kind, self.data))


class DocumentList(ApiValue, frozen=True, kw_only=True):
    """Documents after an id that the event stream retains.

    `last`: the id to continue after; `missed`: how many are no longer retained. `sent` is `documents` in the JSON.
    """

    last: str
    missed: int
    sent: list[DocumentJson] = field(name="documents")

    @property
    def documents(self) -> tuple[Document, ...]:
        """The documents with the types of their kinds. Each access reads all of them: keep what it returns."""
        return tuple(one.document() for one in self.sent)

    @override
    def __str__(self) -> str:
        return f"{plural(len(self.sent), 'document')} until {self.last}" + (
            f", {self.missed} missed" if self.missed else ""
        )
