"""How many records one round takes: fewer where rounds do not land, for their bytes may be why.

Verdicts and what waits carry whole work records, up to 64 KiB of payload each, so a full round may be too much for what
the brokers take before its time is over. It would be made again as it was, and nothing behind it would ever come to
its turn. What must hold: from the most on, half as many after each round that did not land, however it failed, down to
``LEAST``; then slowly up again while they land, so that most of the work is not done twice. What no round decides does
not count: what is only read, as at a take-over, and a turn that was given up before there was a round.
"""

from __future__ import annotations

from waterclock.model.errors import RoundAborted, RoundInDoubt

LEAST = 10
_SLOWLY = 8
"""A part of it more for each round that lands."""


class RoundSize:
    """``now``: what the next round may take, at most ``most``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.now = most

    def met(self, trouble: Exception) -> None:
        """A turn met trouble; that counts where it was a round's."""
        if isinstance(trouble, RoundAborted | RoundInDoubt):
            self.now = max(min(LEAST, self._most), self.now // 2)

    def landed(self) -> None:
        """A round has landed."""
        self.now = min(self._most, self.now + 1 + self.now // _SLOWLY)
