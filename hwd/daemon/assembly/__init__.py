"""The parts of a daemon, put together: one module makes what belongs to one noun, as one value."""
