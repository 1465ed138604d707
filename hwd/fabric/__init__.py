"""Where light can go: paths and their loss, what crossconnects light up. Pure: no asyncio, no clock, no I/O."""
