"""Whole worlds from a seed: daemon, agents and twins in one process, in virtual time, on memory transports."""
