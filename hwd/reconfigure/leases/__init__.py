"""Leases: who may change what, from when, until when."""
