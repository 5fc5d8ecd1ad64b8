"""Which trial is this? Sets one otherwise identical call apart from another, for a model that errs at random.

The offline model draws its noise from (seed, nonce, messages): two trials of the same case err independently, and a
rerun of either errs in the same way. Real models never see it.
"""

from __future__ import annotations

from contextvars import ContextVar

nonce: ContextVar[str] = ContextVar("nonce", default="")
