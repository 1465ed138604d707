"""A process that uses all time of one processor until it is killed, as a load on the machine."""

while True:
    pass
