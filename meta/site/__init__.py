"""The page that people leave open: what waits for them, how the agents do, what was decided and why."""
