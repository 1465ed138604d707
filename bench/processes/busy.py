"""A processor's worth of work, until it is ended: what shares a machine with a daemon and its agents."""

while True:
    pass
