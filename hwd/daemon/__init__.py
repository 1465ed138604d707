"""The composition root: what the daemon is made of, its start, its signals, its end."""
