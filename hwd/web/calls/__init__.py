"""The calls of the HTTP API, by noun: a class that answers them, and a table that states each once."""
