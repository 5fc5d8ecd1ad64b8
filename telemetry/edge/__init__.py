"""What every script shares: flags, files, git, GitHub, text made harmless."""
