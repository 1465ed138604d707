"""Optical switches that run SONiC: its command line over SSH."""
