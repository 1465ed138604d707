"""How much of the capacity of a job's network became data that its ranks go on with."""
