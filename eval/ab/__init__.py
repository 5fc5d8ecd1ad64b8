"""Champion against challenger."""

from typing import Final

# What a person may take upon themselves, and the guardrail that it names.
ALLOW: Final = {
    "agents": "any agent clearly worse",
    "cost": "cost per case",
    "latency": "p95 latency",
    "schema": "schema-valid answers",
    "safety": "safe answers",
    "calls": "failed calls",
}
