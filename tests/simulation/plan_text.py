"""A plan as JSON and back: so that a failing one, also one that follows from no seed, can be kept and played again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from waterclock.dispatcher.pace import Pace

from waterclock.model.job import CommandKind, JobSpec
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.timing import uses_from_stored, uses_to_stored

from .people import Order
from .plan import Plan
from .senders import Garbage
from .troubles import Trouble


def plan_to_text(plan: Plan) -> str:
    """Exact: ``plan_from_text`` gives the same plan."""
    fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    fields |= {
        "pace": dataclasses.asdict(plan.pace),
        "orders": [_order_out(order) for order in plan.orders],
        "garbage": [garbage._asdict() for garbage in plan.garbage],
        "troubles": [trouble._asdict() for trouble in plan.troubles],
    }
    return json.dumps(fields, indent=1, sort_keys=True)


def plan_from_text(text: str) -> Plan:
    """Raises ValueError, TypeError or KeyError for what is no plan of this version."""
    fields: dict[str, Any] = json.loads(text)
    fields |= {
        **{name: tuple(fields[name]) for name in ("slots", "sites", "small", "looks_s") if name in fields},
        "pace": Pace(**fields["pace"]),
        "orders": tuple(_order_in(order) for order in fields["orders"]),
        "garbage": tuple(Garbage(**garbage) for garbage in fields["garbage"]),
        "troubles": tuple(Trouble(**trouble) for trouble in fields["troubles"]),
    }
    return Plan(**fields)


def read_plan(path: Path) -> Plan:
    """The plan that a file keeps."""
    return plan_from_text(path.read_text(encoding="utf-8"))


def _order_out(order: Order) -> dict[str, Any]:
    spec = None if order.spec is None else spec_to_json(order.spec).decode()
    return order._asdict() | {"kind": order.kind.value, "spec": spec, "calendars": uses_to_stored(order.calendars)}


def _order_in(order: dict[str, Any]) -> Order:
    spec: JobSpec | None = None if order["spec"] is None else spec_from_json(order["spec"].encode())
    calendars = uses_from_stored(order.get("calendars", []))  # kept plans are older than calendars
    return Order(**order | {"kind": CommandKind(order["kind"]), "spec": spec, "calendars": calendars})
