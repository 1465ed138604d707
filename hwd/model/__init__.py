"""Values: testbeds, links, plans, leases, instants. Pure: no asyncio, no clock, no I/O."""
