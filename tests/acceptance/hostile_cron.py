"""500 hostile cron expressions: each is refused with pointer and hint, in at most 50 ms of processor, and none hangs.

A list by hand and a seeded generator (``hostile_texts.py``), through the door of every job document and through the
preview; also with six fields, and in a zone in which half of all nights are odd. The time is that of this process, so
that a busy machine adds nothing; the first look at a zone counts. The short form is the whole: it takes a second.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from tests.acceptance.evidence import Evidence
from tests.acceptance.hostile_texts import BY_HAND, generated
from waterclock.model.document import spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.job import Cron, Gap
from waterclock.model.preview import preview_cron

EXPRESSIONS = 500
SEED = 20261122
MS_MAX = 50.0
HANGS_S = 10
"""Of real time, at which one is given up."""
_MESSAGE_MAX = 600
_ZONE = "America/New_York"


def main(short: bool = False) -> None:
    evidence = Evidence("hostile-cron", None)
    texts = list(dict.fromkeys([*BY_HAND, *islice(generated(SEED), 4 * EXPRESSIONS)]))[:EXPRESSIONS]
    evidence.figure("expressions", len(texts), by_hand=len(BY_HAND), seed=SEED)
    evidence.demand(len(texts) == EXPRESSIONS, "too few of them differ")
    took: list[tuple[float, str]] = []
    wrong: list[str] = []
    signal.signal(signal.SIGALRM, _given_up)
    for text in texts:
        for door in _DOORS:
            ms, complaint = _refused(door, text)
            took.append((ms, text))
            wrong += [f"{text[:80]!r}: {complaint}"] if complaint else []
    never = [cron for cron in _NEVER if _refused(lambda cron=cron: preview_cron(cron, 0, 1), None)[1]]
    slowest = sorted(took, reverse=True)
    evidence.figure("refusals", len(took), doors=len(_DOORS))
    evidence.figure("ms of processor time, slowest", round(slowest[0][0], 2), expression=slowest[0][1][:60])
    evidence.figure("ms of processor time, half are under", round(slowest[len(slowest) // 2][0], 3))
    evidence.none_of(wrong, "are not refused as they should be")
    evidence.none_of([f"{cron}" for cron in never], "never fire and are accepted")
    evidence.none_of((f"{ms:.1f} ms: {text[:80]!r}" for ms, text in slowest if ms > MS_MAX), "cost too much")
    evidence.close()


def _by_document(text: str) -> object:
    return spec_from_document({"handler": "a", "cron": text, "zone": _ZONE}, job_id="acme:nightly")


def _by_preview(text: str) -> object:
    return preview_cron(Cron(text, "Europe/Berlin"), 0, 100, job_id="acme:nightly")


def _with_seconds(text: str) -> object:
    """A good second in front changes nothing, but for what has six fields in five."""
    if len(text.split()) == 6 or text.startswith("@"):
        return _by_document(text)
    return preview_cron(Cron(f"0 {text}", _ZONE, seconds=True), 0, 100, job_id="acme:nightly")


_DOORS: tuple[Callable[[str], object], ...] = (_by_document, _by_preview, _with_seconds)
_NEVER: Iterable[Cron] = (
    Cron("30 2 * 3 sun#2", _ZONE, gap=Gap.SKIP),
    Cron("0 9 30 2 *", "Pacific/Apia"),
    Cron("0 0 0 30 2 *", seconds=True),
)


def _refused(door: Callable[..., object], text: str | None) -> tuple[float, str]:
    """Milliseconds of processor time, and what is wrong with the refusal; "" where nothing is."""
    words: tuple[Any, ...] = () if text is None else (text,)
    signal.alarm(HANGS_S)
    began_s = time.process_time()
    try:
        door(*words)
        complaint = "it is accepted"
    except RequestError as refused:
        complaint = _fault(refused)
    except Hung:
        complaint = f"no answer within {HANGS_S} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no refusal, and the others are to be seen too
        complaint = f"it raises {type(error).__name__}"
    finally:
        signal.alarm(0)
    return (time.process_time() - began_s) * 1_000, complaint


def _fault(refused: RequestError) -> str:
    if refused.pointer != "/cron":
        return f"it points at {refused.pointer!r}"
    if not refused.hint:
        return "there is no hint"
    return f"it says {len(str(refused))} characters" if len(str(refused)) > _MESSAGE_MAX else ""


class Hung(Exception):
    """An expression has kept somebody busy for too long."""


def _given_up(*_: object) -> None:
    raise Hung
