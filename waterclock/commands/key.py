"""``waterclock key``: who may use the API, as which tenant, and for what.

Keys are written to Cassandra directly: whoever may do that owns the cluster anyway, and the first key can be made
before any API runs. A new key is shown once; what is kept cannot be turned back into it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.clock import SystemClock
from waterclock.model.errors import NotFound
from waterclock.model.ids import make_job_id
from waterclock.model.time_text import parse_duration

from .connect import here, open_store
from .output import OutputOption, instant_text, say, show_one, show_rows

app = typer.Typer(add_completion=False, help="Let programs use the API.", no_args_is_help=True)

_LISTED_MAX = 10_000


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who gets it; shown in lists and in the audit")] = "",
    tenant: Annotated[str | None, typer.Option(help="Whose jobs it sees (the tenant that is set)")] = None,
    scopes: Annotated[str, typer.Option(help="read, write or admin; each contains those before it")] = "write",
    expires: Annotated[str | None, typer.Option(help="Valid for so long: 30d, 12h (for ever)")] = None,
    output: OutputOption = None,
) -> None:
    """Make a key and show it, this once. From the first key on, the API asks everybody for one."""
    from waterclock.api.keys import new_key

    settings = here()
    owner = tenant or settings.tenant
    make_job_id(owner, "x")  # refuses what is no tenant
    now = SystemClock().now()
    expires_at = now + parse_duration(expires, "/expires") if expires else 0
    token, kept = new_key(owner, scopes, now, name=name, expires_at=expires_at)
    with open_store(settings) as store:
        is_first = not store.keys(1)
        store.put_key(kept)
    show_one({"key": token, "tenant": owner, "scopes": kept.scopes, "expires_at": instant_text(expires_at)}, output)
    say("keep it now: it is shown this once, and nowhere kept")
    if is_first:
        say("it is the first one: within five seconds the API asks everybody for a key, also on this machine")


@app.command("list")
def list_keys(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's (all)")] = None, output: OutputOption = None
) -> None:
    """List keys by their public prefix; the secrets are nowhere kept."""
    now = SystemClock().now()
    with open_store(here()) as store:
        keys = [key for key in store.keys(_LISTED_MAX) if tenant in (None, key.tenant)]
    rows = [
        {
            "prefix": key.prefix,
            "name": key.name,
            "tenant": key.tenant,
            "scopes": key.scopes,
            "life": "revoked" if key.revoked_at else "expired" if 0 < key.expires_at <= now else "valid",
            "created_at": instant_text(key.created_at),
            "expires_at": instant_text(key.expires_at),
        }
        for key in keys
    ]
    show_rows(rows, ("prefix", "name", "tenant", "scopes", "life", "created_at", "expires_at"), output)
    if not rows:
        say("no keys: `waterclock key create`")


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Its prefix, or the whole key")], output: OutputOption = None
) -> None:
    """End a key; within five seconds no API process takes it any more."""
    from waterclock.api.keys import in_force, read_token

    token = read_token(key)
    prefix = token.prefix if token else key
    now = SystemClock().now()
    with open_store(here()) as store:
        known = store.key(prefix)
        if known is None:
            raise NotFound(f"There is no key {prefix[:40]!r}", hint="`waterclock key list` shows their prefixes")
        if not known.revoked_at:
            store.put_key(known._replace(revoked_at=now))
        others = [each for each in store.keys(_LISTED_MAX) if each.prefix != prefix and in_force(each, now)]
    show_one({"prefix": prefix, "revoked_at": instant_text(known.revoked_at or now)}, output)
    if not others:
        say("no key is left that works: the API refuses everybody until `waterclock key create` makes one")
