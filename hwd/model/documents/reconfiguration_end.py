"""The documents that tell the end of a reconfiguration, whoever brought it about."""

from hwd.model.documents.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.documents.reconfigurations import ReconfigurationEnded

EndFact = ReconfigurationEnded | DaemonRecovered | JournalGivenUp
"""With the outcome `failed` it is none yet: the journal keeps that reconfiguration open."""


def outcome_of(fact: EndFact) -> str:
    """The outcome as the journal has it: confirmed, rolled-back, given-up."""
    return "given-up" if isinstance(fact, JournalGivenUp) else fact.outcome
