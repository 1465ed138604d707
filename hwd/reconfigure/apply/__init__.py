"""From a plan to an outcome: driven, read back, awaited, ended, or recovered after a crash."""
