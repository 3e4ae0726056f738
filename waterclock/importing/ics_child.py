"""``python -m waterclock.importing.ics_child``: reads one iCalendar file from stdin, within bounds of time and memory.

Answers JSON on stdout: ``{"found": ...}``, or ``{"error": [message, hint]}``. See ``ics.py``, which starts it.
"""

from __future__ import annotations

import json
import resource
import sys
from datetime import UTC, datetime

CPU_S = 5
MEMORY_BYTES = 1 << 30


def main() -> None:
    """Read, answer, end. The bounds come first: nothing of the text has been looked at then."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    zone, now = sys.argv[1], datetime.fromtimestamp(int(sys.argv[2]), UTC)
    data = sys.stdin.buffer.read()
    from waterclock.importing.ics_events import read_events  # noqa: PLC0415 (within the bounds)
    from waterclock.model.errors import RequestError  # noqa: PLC0415

    try:
        answer: dict[str, object] = {"found": read_events(data, zone=zone, now=now)}
    except RequestError as error:
        answer = {"error": [error.message, error.hint]}
    except Exception as error:  # noqa: BLE001 - whatever a parser says of a stranger's text is said of the text
        what = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        answer = {"error": [f"This is no iCalendar file that can be read: {what}", "Export it again as .ics"]}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
