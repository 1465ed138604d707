"""What commands to switches cost: a change, an apply, a selection by a host, planning, many controllers, many twins."""
