"""The witness of a simulated world, and what it watches by families of rules."""
