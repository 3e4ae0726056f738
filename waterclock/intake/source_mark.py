"""What rides with a committed position of a source topic: which topic it was, and how wide. Pure.

What must hold: a partition that was added later is told from one of which nobody came to commit a position. The first
is heard from its beginning, for whatever stands there came after the topic was heard; the second from where the setting
says, or the history of years would start jobs. So the width, in partitions, is that of the first beginning, and is
handed on from position to position. Width 0: the whole topic is heard from its beginning, whatever is added.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Mark(NamedTuple):
    """The topic's id, and of how many partitions it was when its first positions were committed."""

    topic_id: str
    width: int = 0

    def text(self) -> str:
        """As it rides with a position."""
        return f"{self.topic_id} {self.width}" if self.width else self.topic_id


def mark_of(text: str) -> Mark:
    """Of what rides with a position; "" and anything else is a topic's id without a width."""
    topic_id, _, width = text.partition(" ")
    return Mark(topic_id, int(width) if width.isascii() and width.isdigit() else 0)


def mark_beside(topic_id: str, others: Iterable[str], partitions: int) -> Mark:
    """What is to ride with the positions of a topic of so many partitions, where ``others`` ride with those that stand.

    One that was made anew is heard from its beginning, whole.
    """
    marks = [mark_of(text) for text in others]
    same = [mark.width for mark in marks if mark.topic_id in ("", topic_id)]
    return Mark(topic_id, min(same) if same else 0 if marks else partitions)
