"""Where light can go: paths and their loss, what crossconnects light up, lease rules. Pure: no asyncio, no clock, no I/O."""
