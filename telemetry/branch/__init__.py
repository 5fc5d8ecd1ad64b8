"""The data branch: telemetry of many machines that share no disk, as immutable segments that are named by content."""
