"""Whether the free properties (``kafka.client``) fit beside ours, tried before a role begins.

Why beside ``check_extra``: a property that is right by itself may contradict one that the guarantees stand on
(``socket.timeout.ms`` above the transaction's, ``acks`` = 1 beside idempotence), and the client says so only when it is
made: the producer of a role in its first round. What says who we are (TLS, SASL) contradicts nothing of ours and is
left out: each client would read the certificates again, and wait for a token of its own. How it fails: RequestError
with the client's own words; BackendDown where the machine has no room for another client now.
"""

from __future__ import annotations

import logging

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from waterclock.model.errors import BackendDown, RequestError

from .kafka_errors import BACKEND, error_of
from .kafka_properties import Conf, Properties
from .port import Isolation

_SILENT = logging.getLogger("waterclock.kafka.trial")
_NOT_TRIED = ("bootstrap.servers", "security.protocol", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")


def check_fit(properties: Properties) -> None:
    """Make a client of each kind, which goes nowhere. Raises RequestError, BackendDown."""
    producing, member = properties.transactional("trial"), properties.member("trial", None)
    try:
        for conf in (producing, properties.appending()):
            Producer(_going_nowhere(conf), logger=_SILENT, error_cb=lambda _: None)
        for conf in (member, properties.reader(Isolation.COMMITTED)):
            Consumer(_going_nowhere(conf), logger=_SILENT, error_cb=lambda _: None).close()
    except KafkaException as refused:
        transaction, session = producing["transaction.timeout.ms"], member["session.timeout.ms"]
        ours = f"transaction.timeout.ms = {transaction}, session.timeout.ms = {session}, and "
        raise not_made(refused, "no client can be made", ours) from refused


def not_made(refused: KafkaException, who: str, ours: str = "") -> RequestError | BackendDown:
    """Why a client cannot be made: a property that does not fit, or no thread or memory is left, which may pass.

    ``ours``: what Waterclock sets there beside what idempotence asks for.
    """
    error = error_of(refused)
    if error.code() != KafkaError._INVALID_ARG:
        return BackendDown(BACKEND, f"{who}: {error.str()}")
    return RequestError(
        f"kafka.client does not fit: {error.str()}",
        pointer="/kafka/client",
        hint=f"Leave it out, or change it: Waterclock sets {ours}all that idempotence asks for",
    )


def _going_nowhere(conf: Conf) -> Conf:
    return {name: value for name, value in conf.items() if not name.startswith(_NOT_TRIED)} | {"log_level": 0}
