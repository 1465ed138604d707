"""Measurements of agents: carrier events, clock alignment, reads of modules, the spool, an idle agent."""
