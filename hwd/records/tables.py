"""The tables of the records, and the version of their shape."""

import sqlalchemy as sa

VERSION = 11
"""Incremented with every change of a table. A file of another version is refused, and left as it is."""

metadata = sa.MetaData()

about = sa.Table(
    "hwd_about",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("playbook", sa.Text, nullable=False),
    sa.Column("playbook_text", sa.Text, nullable=False),
    sa.Column("parameters", sa.Text, nullable=False),
    sa.Column("testbed", sa.Text, nullable=False),
    sa.Column("testbed_text", sa.Text, nullable=False),
    sa.Column("inventory", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("commit_id", sa.Text),
    sa.Column("virtual_time", sa.Boolean, nullable=False),
    sa.Column("started_wall_ns", sa.BigInteger, nullable=False),
    sa.Column("ended_wall_ns", sa.BigInteger),
    sa.Column("outcome", sa.Text),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("safe_state", sa.Text),
    sa.Column("trial", sa.Text),
    sa.Index("runs_by_start", "started_wall_ns"),
)

documents = sa.Table(
    "documents",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("run", sa.Text),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column("wall_ns", sa.BigInteger, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Index("documents_by_run", "run", "id"),
    sa.Index("documents_by_kind", "kind", "id"),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("ports", sa.Text, nullable=False),
    sa.Column("taken_wall_ns", sa.BigInteger, nullable=False),
    sa.Column("expires_wall_ns", sa.BigInteger, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("heartbeat_s", sa.Float),
    sa.Column("claim_within_s", sa.Float),
    sa.Column("baseline", sa.Text, nullable=False, server_default="{}"),
)

lease_requests = sa.Table(
    "lease_requests",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("ports", sa.Text, nullable=False),
    sa.Column("for_s", sa.Float, nullable=False),
    sa.Column("arrived_wall_ns", sa.BigInteger, nullable=False),
    sa.Column("at_wall_ns", sa.BigInteger),
    sa.Column("priority", sa.BigInteger, nullable=False),
    sa.Column("heartbeat_s", sa.Float),
)
"""Leases that are not granted yet: who waits in the queue, and reservations."""

alignments = sa.Table(
    "alignments",
    metadata,
    sa.Column("host", sa.Text, primary_key=True),
    sa.Column("boot", sa.Text, primary_key=True),
    sa.Column("wall_ns", sa.BigInteger, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)

seen = sa.Table(
    "seen",
    metadata,
    sa.Column("host", sa.Text, primary_key=True),
    sa.Column("boot", sa.Text, primary_key=True),
    sa.Column("upto", sa.BigInteger, nullable=False),
    sa.Column("wall_ns", sa.BigInteger, nullable=False, server_default="0"),
)
"""The number up to which the events of a boot are recorded, and when the last of them came."""

queue = sa.Table(
    "queue",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("playbook", sa.Text, nullable=False),
    sa.Column("playbook_text", sa.Text, nullable=False),
    sa.Column("file", sa.Text, nullable=False),
    sa.Column("parameters", sa.Text, nullable=False),
    sa.Column("queued_wall_ns", sa.BigInteger, nullable=False),
    sa.Column("due_wall_ns", sa.BigInteger),
    sa.Column("trial", sa.Text),
)
"""Runs that have not begun."""

twin_faults = sa.Table(
    "twin_faults",
    metadata,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
)
"""Faults that runs injected into twins and did not clear yet. `subject` is the JSON of the fault that clears it."""

delegations = sa.Table(
    "delegations",
    metadata,
    sa.Column("switch", sa.Text, primary_key=True),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("boot", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("since_wall_ns", sa.BigInteger, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
)
"""The last delegation of each switch that its host drives."""

transfer_hosts = sa.Table("transfer_hosts", metadata, sa.Column("host", sa.Text, primary_key=True))
"""Hosts that have claimed a transfer."""

moves = sa.Table(
    "moves",
    metadata,
    sa.Column("switch", sa.Text, primary_key=True),
    sa.Column("element", sa.Text, primary_key=True),
    sa.Column("moves", sa.BigInteger, nullable=False),
)
"""How often each element of a switch has moved by commands of hwd."""

desired = sa.Table(
    "desired",
    metadata,
    sa.Column("switch", sa.Text, primary_key=True),
    sa.Column("end", sa.Text, primary_key=True),
    sa.Column("crossconnect", sa.Text),
    sa.Column("by", sa.Text, nullable=False),
)
"""What is wanted of each fibre end of which somebody wanted something: `crossconnect` NULL, that it has none."""

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("started_wall_ns", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.Boolean, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Index("jobs_by_start", "started_wall_ns"),
)

job_events = sa.Table(
    "job_events",
    metadata,
    sa.Column("job", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("data", sa.Text, nullable=False),
)
"""What the plane of each job was told and answered, in order."""

demands = sa.Table(
    "demands",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("stored_bytes", sa.BigInteger, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)

demand_matrices = sa.Table(
    "demand_matrices",
    metadata,
    sa.Column("demand", sa.Text, primary_key=True),
    sa.Column("layer", sa.BigInteger, primary_key=True),
    sa.Column("microbatch", sa.BigInteger, primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
"""`data`: as `NewDemand.matrices` has it."""
