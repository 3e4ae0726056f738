"""Signatures after Standard Webhooks 1.0: a receiver knows that the call is ours, and that nobody changed it.

``webhook-signature: v1,<base64 of HMAC-SHA256(secret, "<webhook-id>.<webhook-timestamp>.<body>")>``; two of them,
separated by a space, while a secret is being replaced. Done here over bytes, because the package that the scheme's
authors publish signs text alone; the tests hold the two together.

What must hold: the signed text has no lengths, so a body must not begin like the end of another one's timestamp
(``Refused``: digits and a dot). Secrets are named in jobs and kept in the worker's settings; they are never shown.
"""

from __future__ import annotations

import binascii
import hmac
import re
from collections.abc import Mapping, Sequence

from waterclock.model.errors import AttemptError, RequestError

DEFAULT = "default"
"""The secret of jobs that name none."""

_PREFIX = "whsec_"
_BYTES_MIN, _BYTES_MAX = 24, 64
_ROTATING_MAX = 2
_AMBIGUOUS = re.compile(rb"[0-9]+\.")


class Secrets:
    """Signing secrets by name; two under one name while one replaces the other. Raises RequestError."""

    def __init__(self, named: Mapping[str, Sequence[str]]) -> None:
        self._keys = {name: _keys(name, texts) for name, texts in named.items()}

    def signature(self, name: str, message_id: str, timestamp_s: int, body: bytes) -> str:
        """The header's value; "" where the job names no secret and no default one is set. Raises AttemptError."""
        keys = self._keys.get(name or DEFAULT)
        if keys is None:
            if not name:
                return ""
            raise AttemptError(
                f"this worker has no signing secret {name!r}: set webhook.secrets.{name}, or correct the job",
                error_class="secret-missing",
            )
        if _AMBIGUOUS.match(body):
            raise AttemptError(
                "a body that begins with digits and a dot cannot be signed safely: send a JSON object",
                error_class="body-refused",
            )
        signed = b"%s.%d.%s" % (message_id.encode(), timestamp_s, body)
        return " ".join([_one(key, signed) for key in keys])


def _one(prepared: hmac.HMAC, signed: bytes) -> str:
    mac = prepared.copy()  # the key is mixed in once, not at every call
    mac.update(signed)
    return "v1," + binascii.b2a_base64(mac.digest(), newline=False).decode()


def _keys(name: str, texts: Sequence[str]) -> tuple[hmac.HMAC, ...]:
    if not 0 < len(texts) <= _ROTATING_MAX:
        raise _bad(name, f"it has {len(texts)} values")
    return tuple(hmac.new(_key(name, text), digestmod="sha256") for text in texts)


def _key(name: str, text: str) -> bytes:
    try:
        key = binascii.a2b_base64(text.removeprefix(_PREFIX), strict_mode=True)
    except (binascii.Error, ValueError):
        raise _bad(name, "it is not base64") from None
    if not text.startswith(_PREFIX) or not _BYTES_MIN <= len(key) <= _BYTES_MAX:
        raise _bad(name, f"it does not begin with {_PREFIX}, or has other than {_BYTES_MIN} to {_BYTES_MAX} bytes")
    return key


def _bad(name: str, why: str) -> RequestError:
    """Never shows the secret."""
    return RequestError(
        f"webhook.secrets.{name} is no signing secret: {why}",
        pointer=f"/webhook/secrets/{name}",
        hint="One or two of: python -c 'import base64,os; print(\"whsec_\"+base64.b64encode(os.urandom(32)).decode())'",
    )
