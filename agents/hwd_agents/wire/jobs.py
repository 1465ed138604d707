"""Jobs: what an agent asks of the daemon for the ranks of its host."""

from typing import Annotated

import msgspec
from msgspec import Meta

from .arguments import Arguments
from .bounds import LINKS_MOST, PORTS_MOST, RANKS_MOST, At, ByName, Name, Number, Seconds, Text
from .operations import Operation

RankNumber = Annotated[int, Meta(ge=0, lt=RANKS_MOST)]
Key = Annotated[str, Meta(min_length=1, max_length=64)]
"""A secret of one job, which its ranks have in their environment: whoever does not know it is none of them."""


class RankPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rank is. `optical` and `electrical`: the addresses of the NIC ports that it can send over, by port."""

    host: Name
    gpu: int | None = None
    optical: dict[Name, Text] = {}
    electrical: dict[Name, Text] = {}


class JobJoined(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `join-job`: the job, as each of its ranks may know it.

    `groups`: their ranks, by name. `longest_s`: the longest time that an operation may ask for.
    """

    ranks: Annotated[list[RankPlace], Meta(max_length=RANKS_MOST)]
    groups: dict[Name, list[RankNumber]]
    longest_s: Seconds | None = None


class JoinJob(Arguments[JobJoined], frozen=True, kw_only=True):
    """A rank of a job has come. `process`: as the agent knows it."""

    VERB = "join-job"
    ANSWER = JobJoined

    job: Name
    rank: RankNumber
    key: Key
    process: Name


class OperationGranted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `claim-operation`: the rank may send, over `ports` of the host, for `within_s` from the answer on.

    `links`: those of the light, `h0.eth0<->h1.eth0`, for an operation that says its parts: who sends by another way
    between hosts without one has to know. Empty where the light is none of links.
    """

    within_s: Seconds
    waited_s: Seconds
    ports: Annotated[list[Name], Meta(max_length=PORTS_MOST)]
    links: Annotated[list[Text], Meta(max_length=LINKS_MOST)] = []


class PortBytes(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes that a NIC port has received and sent since its interface was made, by the kernel: whole frames.

    `interface`: the index of the interface, which one that is made anew has not; None from an agent that does not say.
    """

    rx: Number
    tx: Number
    interface: Number | None = None


class IpDatagrams(msgspec.Struct, frozen=True, kw_only=True):
    """IP datagrams that a host has received since its network was made, on all interfaces, and those of them that it
    passed on to other hosts.
    """

    received: Number
    forwarded: Number


class CountedBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of the NIC ports of a host, by port, `at_ns` of the agent's clock. A port that cannot be read is not
    there. `datagrams` None: the agent does not count them.
    """

    at_ns: At
    ports: ByName[PortBytes] = {}
    datagrams: IpDatagrams | None = None


class EndedOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of a rank of this host that has ended: the agent knows its connection, so it needs no key.

    `before`: counted when its rank asked for it first, so that nothing of it had come yet from ranks that were let go a
    moment earlier. `began_ns`: when it was told to go. `after`: counted as soon as it had ended.
    """

    job: Name
    rank: RankNumber
    operation: Operation
    before: CountedBytes | None = None
    began_ns: At | None = None
    after: CountedBytes | None = None


class ClaimOperation(Arguments[OperationGranted], frozen=True, kw_only=True):
    """A rank is about to send: its control plane is asked, and the answer waits for it until the ask expires.

    `transfer`: the id of the transfer that it is from then on, chosen by the agent. One that is asked for again, since
    an answer was lost, is answered as before. `ended`: the operation of the rank before, where the daemon may not have
    been told of its end yet.
    """

    VERB = "claim-operation"
    ANSWER = OperationGranted

    transfer: Name
    job: Name
    rank: RankNumber
    key: Key
    operation: Operation
    process: Name
    within_s: Seconds
    ended: EndedOperation | None = None


class OperationEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `end-operation`, which has no fields."""


class EndOperation(Arguments[OperationEnded], frozen=True, kw_only=True):
    """An operation that was let go has ended: of a rank whose agent was started anew meanwhile, and knows no transfer.

    `after`: counted when the rank said so.
    """

    VERB = "end-operation"
    ANSWER = OperationEnded

    job: Name
    rank: RankNumber
    key: Key
    operation: Operation
    after: CountedBytes | None = None
