"""The tenants of a play, and the keys of their programs."""

from __future__ import annotations

from waterclock.api import keys
from waterclock.store.memory import MemoryStore
from waterclock.store.port import ApiKey


def token_of(tenant: str) -> str:
    """The key of a tenant's programs: no secret, in a play."""
    return f"wck_{tenant:z<8.8}_{tenant:A<43.43}"


def put_keys(store: MemoryStore, tenants: set[str], now: int) -> None:
    """Every tenant has a key."""
    for tenant in sorted(tenants):
        token = keys.read_token(token_of(tenant))
        assert token is not None, tenant
        store.put_key(ApiKey(token.prefix, keys.digest_of(token.secret), tenant, "play", "write", now, 0))
