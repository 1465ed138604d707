"""Who may change which ports, and why not. Pure: no asyncio, no clock, no I/O."""
