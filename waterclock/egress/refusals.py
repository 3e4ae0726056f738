"""Why a call did not happen, or got no answer: failures of the attempt, each with the class that groups it."""

from __future__ import annotations

from waterclock.model.errors import AttemptError, AttemptStopped


class EgressRefused(AttemptError):
    """The guard refuses this destination: nothing was sent. Class ``egress-refused``."""

    def __init__(self, message: str) -> None:
        super().__init__(message, error_class="egress-refused")


class Unreachable(AttemptError):
    """No connection came about: the name is unknown, nobody listens, or TLS failed. Nothing was sent.

    Classes ``name-not-resolved``, ``connection-failed``, ``tls-failed``.
    """


class NotSent(AttemptStopped):
    """It was stopped while it waited for its turn. Nothing was sent."""


class NoAnswer(AttemptError):
    """The request went out and no whole answer came. The effect may have happened.

    Classes ``timed-out``, ``connection-lost``, ``answer-broken``.
    """
