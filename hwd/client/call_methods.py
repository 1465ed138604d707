"""The methods that both clients have: every call of `hwd.client.calls`, by the same name."""

from hwd.client import calls
from hwd.client.call import CallMethod


class CallMethods:
    """`client.status()` on a `Client`, `await client.status()` on an `AsyncClient`. Contracts: see
    `hwd.client.calls`.
    """

    status = CallMethod(calls.status)
    switches = CallMethod(calls.switches)
    hosts = CallMethod(calls.hosts)
    reconfigurations = CallMethod(calls.reconfigurations)
    documents = CallMethod(calls.documents)

    plan = CallMethod(calls.plan)
    apply = CallMethod(calls.apply)
    apply_hash = CallMethod(calls.apply_hash)
    confirm = CallMethod(calls.confirm)
    roll_back = CallMethod(calls.roll_back)
    give_up = CallMethod(calls.give_up)
    timeline = CallMethod(calls.timeline)

    start_run = CallMethod(calls.start_run)
    start_playbook = CallMethod(calls.start_playbook)
    runs = CallMethod(calls.runs)
    run = CallMethod(calls.run)
    run_state = CallMethod(calls.run_state)
    run_documents = CallMethod(calls.run_documents)
    timelines = CallMethod(calls.timelines)
    queue = CallMethod(calls.queue)
    pause = CallMethod(calls.pause)
    resume = CallMethod(calls.resume)
    abort = CallMethod(calls.abort)

    leases = CallMethod(calls.leases)
    take_lease = CallMethod(calls.take_lease)
    renew_lease = CallMethod(calls.renew_lease)
    release_lease = CallMethod(calls.release_lease)
    kick_lease = CallMethod(calls.kick_lease)
    grant_lease = CallMethod(calls.grant_lease)

    block = CallMethod(calls.block)
    unblock = CallMethod(calls.unblock)

    fault = CallMethod(calls.fault)
