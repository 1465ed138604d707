"""NETCONF of Polatis units: over SSH, with the vendor's YANG modules."""
