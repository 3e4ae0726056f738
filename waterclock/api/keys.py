"""API keys: what they look like, what is kept of them, what they allow.

``wck_<prefix>_<secret>``: the prefix is public and names the key, the secret is 256 random bits. What must hold: the
secret is shown once and kept nowhere; Cassandra holds its SHA-256, which is enough for a secret of 256 bits; it is
compared in constant time; a key is of no use after its expiry or once revoked. The prefix ``wck_`` lets scanners of
repositories find a key that leaked.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

from waterclock.model.errors import RequestError
from waterclock.model.ids import Instant
from waterclock.store.port import ApiKey

SCOPES = ("read", "write", "admin")
"""Each contains those before it: admin may all that write may, write all that read may."""

_PREFIX_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_PREFIX_LENGTH = 10
_SECRET_BYTES = 32
_TOKEN = re.compile(r"wck_([a-z0-9]{4,32})_([A-Za-z0-9_-]{43})\Z")
_NAME_MAX = 100


class Token(NamedTuple):
    """A key as its owner presents it."""

    prefix: str
    secret: str


def new_key(tenant: str, scopes: str, now: Instant, *, name: str = "", expires_at: Instant = 0) -> tuple[str, ApiKey]:
    """(the key to give away, what is kept). Raises RequestError for scopes that are none, or a name too long."""
    words = scopes.replace(",", " ").split()
    unknown = [word for word in words if word not in SCOPES]
    if unknown or not words:
        raise RequestError(
            f"{unknown[0][:40]!r} is not a scope" if unknown else "A key needs a scope",
            pointer="/scopes",
            hint=f"One of {', '.join(SCOPES)}",
        )
    if len(name) > _NAME_MAX or not name.isprintable():
        raise RequestError("The name is too long, or no text", pointer="/name", hint=f"At most {_NAME_MAX} characters")
    prefix = "".join(secrets.choice(_PREFIX_ALPHABET) for _ in range(_PREFIX_LENGTH))
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    kept = ApiKey(prefix, digest_of(secret), tenant, name, " ".join(words), now, expires_at)
    return f"wck_{prefix}_{secret}", kept


def read_token(text: str) -> Token | None:
    """The parts of a key; None where it is none."""
    match = _TOKEN.match(text)
    return Token(match[1], match[2]) if match else None


def digest_of(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def opens(key: ApiKey, secret: str, now: Instant) -> bool:
    """Whether the secret is that of the key, and the key is in force. Takes the same time for every wrong secret."""
    same = hmac.compare_digest(key.digest, digest_of(secret))
    return same and in_force(key, now)


def in_force(key: ApiKey, now: Instant) -> bool:
    """Neither expired nor revoked."""
    return (not key.expires_at or now < key.expires_at) and not key.revoked_at


def allows(scopes: str, wanted: str) -> bool:
    """Whether ``scopes`` contain ``wanted``."""
    return any(SCOPES.index(word) >= SCOPES.index(wanted) for word in scopes.split() if word in SCOPES)
