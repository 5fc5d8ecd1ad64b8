"""Which part of a run is ours? `--shard I/N` splits a run over machines."""

from __future__ import annotations

import argparse


def shard(text: str) -> tuple[int, int]:
    """An argument type: the I-th of N parts, from 1."""
    part, _, of = text.partition("/")
    if not (text.isascii() and part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text}: must be I/N with 1 <= I <= N")
    return int(part), int(of)
