"""Whether another process lives under our name, judged from our records on ``leases`` (pure).

The rule is the model's (``waterclock/model/leases.py``); here is what only a worker asks: whether its name is somebody
else's now.

A worker reads its own records uncommitted: an aborted record costs it at most a new incarnation, and nobody's open
transaction can keep it from learning of its death. ``by`` of a HELLO names the process, which tells a twin (another
process under our name) from an earlier HELLO of our own.
"""

from __future__ import annotations

from waterclock.model.leases import Standing, after, is_dead

__all__ = ["Standing", "after", "is_dead", "twin_of"]


def twin_of(standing: Standing, process: str, hello_known: int) -> str:
    """The other process that lives under our name, or "" if there is none.

    ``hello_known`` is the newest HELLO that we read after our last init: whoever wrote one up to there, we have fenced
    them since. Only a HELLO behind it, not ours and not fenced, is a twin's, and the twin has fenced us.
    """
    newest_is_hello = standing.hello > standing.fenced
    if newest_is_hello and standing.hello > hello_known and standing.hello_by != process:
        return standing.hello_by or "another process"
    return ""
