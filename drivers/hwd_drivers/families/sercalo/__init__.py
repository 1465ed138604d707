"""Sercalo 1xN switches: the binary protocol of RSC modules, the ASCII one of USB units."""
