"""Plan, journal, apply, verify, confirm: the only part of the daemon that writes to switches."""
