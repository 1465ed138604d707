"""What hosts hold of the rack: the switches that they drive themselves, and the settings of their NIC ports."""
