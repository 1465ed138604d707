"""The rendezvous of a job: all its ranks meet at rank 0, over packet switches, before anything is sent over light."""

import hmac
import socket
import threading
from contextlib import suppress
from typing import Final

from hwd_agents.shim.move_channel import now_s
from hwd_agents.shim.rank import Rank
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError
from hwd_drivers.core.reason import reason_of

PORT: Final = 29_400
"""The port of rank 0; two jobs on one host need two."""
AGAIN_S: Final = 0.1
SAYS_WITHIN_S: Final = 1.0
"""For one that has connected to say its number."""
SAID_MOST: Final = 128
"""Bytes in which it says that."""
SAYS_MOST: Final = 65_536
"""Bytes in which rank 0 says who is missing."""
LATE_S: Final = 5.0
"""Rank 0 listens already, so it gives up by then, and says why."""


def meet(rank: Rank, *, port: int = PORT, within_s: float = 30.0) -> None:
    """Return when all ranks of the job have come, each with a proof that it knows the key of the job.

    Raises ConfigError for a rank without an address on a packet switch, LinkError where rank 0 cannot be reached, with
    both addresses, and DeadlineError, which names the ranks that did not come, in all that have reached rank 0.
    """
    by_s = now_s() + within_s
    address, own = _address(rank, 0), _address(rank, rank.number)
    if rank.number == 0:
        _receive(rank, address[1], port, by_s, within_s)
        return
    last = "it does not listen"
    while (left_s := by_s - now_s()) > 0:
        try:
            with socket.create_connection((address[1], port), timeout=left_s, source_address=(own[1], 0)) as to:
                to.sendall(f"{rank.number} {rank.proof(rank.number)}\n".encode())
                to.settimeout(within_s + LATE_S)
                with to.makefile("rb") as lines:
                    said = lines.readline(SAYS_MOST).decode(errors="replace")
                if said == "\n":
                    return
                if said:
                    raise DeadlineError(f"{_named(rank, rank.number)}: {said.strip()}")
                last = "it hung up before all had come"
        except OSError as error:
            last = reason_of(error)
        threading.Event().wait(AGAIN_S)
    raise LinkError(
        f"{_named(rank, rank.number)}: cannot meet {_named(rank, 0)}: from {own[1]} ({own[0]}) to {address[1]}:{port} "
        f"({address[0]}) within {within_s:g} s: {last}. Look at the fibres from these two ports to their packet switch"
    )


def _receive(rank: Rank, address: str, port: int, by_s: float, within_s: float) -> None:
    absent = {*range(1, len(rank.places))}
    met: list[socket.socket] = []
    try:
        with socket.create_server((address, port)) as listener:
            while absent:
                listener.settimeout(max(0.001, by_s - now_s()))
                one = listener.accept()[0]
                met.append(one)
                one.settimeout(SAYS_WITHIN_S)
                try:
                    with one.makefile("rb") as lines:
                        text = lines.readline(SAID_MOST)
                except TimeoutError:
                    continue  # a stranger, who holds nobody up
                number, _, proof = text.decode(errors="replace").strip().partition(" ")
                if number.isdecimal() and hmac.compare_digest(proof.encode(), rank.proof(int(number)).encode()):
                    absent.discard(int(number))
            for one in met:
                one.sendall(b"\n")
    except TimeoutError as error:
        who = ", ".join(_named(rank, number) for number in sorted(absent))
        why = f"{who}: did not come to rank 0 at {address}:{port} within {within_s:g} s"
        for one in met:
            with suppress(OSError):  # it may have left
                one.sendall(f"{why}\n".encode()[:SAYS_MOST])
        raise DeadlineError(why) from error
    except OSError as error:
        raise LinkError(f"{_named(rank, 0)}: the rendezvous at {address}:{port}: {reason_of(error)}") from error
    finally:
        for one in met:
            one.close()


def _address(rank: Rank, number: int) -> tuple[str, str]:
    """The first NIC port of a rank on a packet switch, and its address."""
    found = rank.places[number].electrical
    if not found:
        raise ConfigError(f"{_named(rank, number)}: has no address on a packet switch: a rendezvous needs one")
    return next(iter(found.items()))


def _named(rank: Rank, number: int) -> str:
    return f"rank {number} on {rank.places[number].host}"
