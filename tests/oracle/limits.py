"""What a version says of runs beside one another: how many may be open, which are of one key, how many may wait.

Imports nothing of ours. A spec is the record of a command; a group is pointer and value of its key, None without one.
"""

import json

from . import policies


def limits_of(spec):
    """(how many of the job, how many of one key) may be open; None: any number."""
    said = policies.beside(spec)
    most = said["max_concurrent"] or (1 if said["overlap"] != "allow" and not said["key"] else None)
    return most, (said["max_per_key"] or 1) if said["key"] else None


def held_most(spec):
    """How many of the job may wait."""
    said = policies.beside(spec)
    return (said["max_held"] or 100) if said["overlap"] in ("allow", "buffer_all") else 1_000


def stops_others(spec):
    """Whether a fire that finds no room asks another run to end."""
    return policies.beside(spec)["overlap"] in ("cancel_other", "terminate_other")


def group_of(spec, payload):
    """By the key of these limits."""
    pointer = policies.beside(spec)["key"]
    return (pointer, value_at(payload, pointer)) if pointer else None


def value_at(payload, pointer):
    """What a JSON pointer finds, as text; "null" where it finds nothing."""
    try:
        found = json.loads(payload)
    except ValueError:
        return "null"
    for name in pointer.split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901 - unescaped
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list):
            found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
        else:
            found = None
    return json.dumps(found, sort_keys=True)
