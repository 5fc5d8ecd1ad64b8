"""How a row comes about: one run, timed, priced, rewarded, logged."""
