"""Random numbers of a seed: one generator for each component, so that a new draw in one does not shift the others."""

from __future__ import annotations

import hashlib
import random


def dice(seed: int, name: str) -> random.Random:
    """The generator of one component of one seed (64 bits). The same on every machine and in every process."""
    digest = hashlib.blake2b(name.encode(), key=seed.to_bytes(8, "big"), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))
