"""What stands before every route under /api/v1: who asks, how often, and whether they may.

What must hold: the tenant comes from the credential alone; nothing below runs without a caller, and what it asks the
store from here on is asked for that tenant. Where no key is needed (loopback, no key made yet) a browser could be the
attacker's hand: so the Host must be a name of loopback (a rebound DNS name is not), and a request that comes from
another site's page is refused.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

from fastapi import Depends, Request

from waterclock.model.errors import RequestError
from waterclock.model.ids import make_job_id, split_job_id

from . import keys
from .keyring import Caller
from .problems import Problem
from .services import Services
from .turns import whose

_LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?\Z", re.IGNORECASE)


async def services_of(request: Request) -> Services:
    """What the app was built on. (A dependency that is no coroutine costs a thread each time.)"""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


async def _known(request: Request) -> Caller:
    services = await services_of(request)
    caller = await services.keyring.caller(request.headers.get("authorization"))
    whose.set(caller.tenant)
    if not caller.key:
        _refuse_strangers_pages(request)
    wait_s = services.rates.take(caller.key or "open")
    if wait_s:
        raise Problem(
            "rate",
            f"More than {services.settings.api.rate_per_s:g} requests a second",
            hint="Slow down; `api.rate_per_s` sets the limit",
            headers={"Retry-After": str(math.ceil(wait_s))},
        )
    return caller


def _may(scope: str) -> object:
    async def check(request: Request) -> Caller:
        caller = await _known(request)
        if not keys.allows(caller.scopes, scope):
            raise Problem("forbidden", f"This needs the scope {scope!r}; the key has {caller.scopes!r}",
                          hint=f"`waterclock key create --scopes {scope}` makes one")  # fmt: skip
        return caller

    return Depends(check)


Reader = Annotated[Caller, _may("read")]
"""A parameter of a route: its caller, who may read."""

Writer = Annotated[Caller, _may("write")]
"""A caller who may change jobs."""

Admin = Annotated[Caller, _may("admin")]
"""A caller who may see what is not one tenant's."""

Held = Annotated[Services, Depends(services_of)]
"""What the route stands on."""


def own_job_id(caller: Caller, word: str) -> str:
    """The job id that a path names: a bare name, or ``<tenant>:<name>``. Raises Problem (404), also across tenants."""
    try:
        tenant, name = split_job_id(word) if ":" in word else (caller.tenant, word)
        job_id = make_job_id(tenant, name)
    except RequestError:
        raise no_such_job(word) from None
    if tenant != caller.tenant:
        raise no_such_job(word)
    return job_id


def no_such_job(word: str) -> Problem:
    """404, in the same words whether it does not exist or is another tenant's."""
    return Problem("not-found", f"There is no job {word[:200]!r}", hint="GET /api/v1/jobs lists those there are")


async def known_parameters(request: Request) -> None:
    """Refuse a query parameter that the route does not have: a misspelt filter must not look like an empty one."""
    dependant = getattr(request.scope.get("route"), "dependant", None)
    known = [field.alias for field in dependant.query_params] if dependant else []
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is not None:
        raise Problem(
            "bad-request",
            f"There is no parameter {unknown[:80]!r} here",
            hint=f"Supported: {', '.join(sorted(known))}" if known else "This takes no parameters",
        )
    twice = next((name for name in request.query_params if len(request.query_params.getlist(name)) > 1), None)
    if twice is not None:
        raise Problem("bad-request", f"{twice[:80]!r} is given twice", hint="Give each parameter once")


def _refuse_strangers_pages(request: Request) -> None:
    """Without a key: only this machine's own programs, and our own page."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    foreign = origin is not None and origin != f"{request.url.scheme}://{host}"
    if not _LOOPBACK_HOST.match(host) or foreign or request.headers.get("sec-fetch-site") == "cross-site":
        raise Problem(
            "forbidden",
            "Without a key only this machine's own programs are served",
            hint="Call http://127.0.0.1 or http://localhost, or make a key: `waterclock key create`",
        )
