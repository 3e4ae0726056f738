"""What was done, and when it was healed: written down at once, so that it survives a check that does not.

Stamps are microseconds of this machine's clock, which no fault touches.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple


class Deed(NamedTuple):
    """One fault that really happened (``kind``), an end that nobody planned (``ended``), or a ``return``."""

    at: int
    kind: str
    target: str
    how: str = ""


class Deeds:
    """All of them, in order; each stands in the file before anything else happens."""

    def __init__(self, path: Path) -> None:
        self.all: list[Deed] = []
        self._file = path.open("a", buffering=1)

    def note(self, kind: str, target: str, how: str = "") -> Deed:
        deed = Deed(time.time_ns() // 1_000, kind, target, how)
        self.all.append(deed)
        self._file.write(json.dumps(deed._asdict()) + "\n")
        return deed

    def counts(self) -> Counter[str]:
        """How many of each kind."""
        return Counter(deed.kind for deed in self.all)

    def of(self, *kinds: str) -> list[Deed]:
        return [deed for deed in self.all if deed.kind in kinds]
