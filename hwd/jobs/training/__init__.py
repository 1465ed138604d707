"""The training of a job that says its iterations and layers: how long they took, and what its light did meanwhile."""
