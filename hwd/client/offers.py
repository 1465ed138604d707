"""The methods that both clients have: every call of `hwd.client.calls`, by the same name."""

from hwd.client import calls
from hwd.client.call import Offered


class Offers:
    """`client.status()` on a `Client`, `await client.status()` on an `AsyncClient`. Contracts: see
    `hwd.client.calls`.
    """

    status = Offered(calls.status)
    switches = Offered(calls.switches)
    hosts = Offered(calls.hosts)
    reconfigurations = Offered(calls.reconfigurations)
    documents = Offered(calls.documents)

    plan = Offered(calls.plan)
    apply = Offered(calls.apply)
    apply_hash = Offered(calls.apply_hash)
    confirm = Offered(calls.confirm)
    roll_back = Offered(calls.roll_back)
    give_up = Offered(calls.give_up)
    timeline = Offered(calls.timeline)

    start_run = Offered(calls.start_run)
    start_playbook = Offered(calls.start_playbook)
    runs = Offered(calls.runs)
    run = Offered(calls.run)
    run_state = Offered(calls.run_state)
    run_documents = Offered(calls.run_documents)
    timelines = Offered(calls.timelines)
    queue = Offered(calls.queue)
    pause = Offered(calls.pause)
    resume = Offered(calls.resume)
    abort = Offered(calls.abort)

    leases = Offered(calls.leases)
    take_lease = Offered(calls.take_lease)
    renew_lease = Offered(calls.renew_lease)
    release_lease = Offered(calls.release_lease)
    kick_lease = Offered(calls.kick_lease)
    grant_lease = Offered(calls.grant_lease)

    block = Offered(calls.block)
    unblock = Offered(calls.unblock)

    fault = Offered(calls.fault)
