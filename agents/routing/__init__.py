"""How a task finds its agent, and an agent its model."""

from typing import Final

BANDIT, MATCH, BALANCE, FALLBACK = "multi-armed-bandit", "capability-match", "load-balance", "fallback"
STRATEGIES: Final = (BANDIT, MATCH, BALANCE, FALLBACK)
