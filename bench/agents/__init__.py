"""What an agent observes, when, and what it costs: carrier events, clock alignment, light, the spool, an idle agent."""
