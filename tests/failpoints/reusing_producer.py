"""A role without the answer to doubt, to show what it is for: ``python -m tests.failpoints.reusing_producer ROLE``.

The role is the product's; only its rounds go on with the producer that lost its connection, as the client alone would
allow: no new producer, no init, nothing settled. What such a role does is never judged as ours.
"""

from __future__ import annotations

import runpy
import sys

from waterclock.log.kafka_producer import KafkaProducer
from waterclock.transact import Rounds


def main(role: str) -> None:
    """Take the answer away, then become the role."""
    KafkaProducer.dirty = False  # type: ignore[assignment,method-assign]
    Rounds._renew = lambda _: None  # type: ignore[method-assign]
    sys.argv = [role]
    runpy.run_module(f"waterclock.{role}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
