"""The way from a request to a plan: routes, moves, their order and their predicted time."""
