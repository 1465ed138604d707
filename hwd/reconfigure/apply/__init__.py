"""The apply of a plan to its outcome: driven, read back, awaited, ended, or recovered after a crash."""
