"""The rack as it is now, folded once from documents: switches, NIC ports, links, and who changed them last (pure)."""
