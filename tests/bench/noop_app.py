"""The bench's handler: it does nothing, and its first line notes when it ran, in a file outside the system."""

import atexit
import os
import threading
import time

from waterclock import App, Context

app = App()

_PATH = os.environ.get("WATERCLOCK_BENCH_SINK", "")
_lines: list[str] = []
_lock = threading.Lock()


def _flush() -> None:
    global _lines
    with _lock:
        lines, _lines = _lines, []
    if lines:
        with open(_PATH, "a") as sink:  # noqa: PTH123
            sink.writelines(lines)


@app.handler("bench.noop")
async def noop(ctx: Context) -> None:
    if _PATH:
        _lines.append(f"{time.time_ns() // 1000} {ctx.run_id}\n")
        if len(_lines) >= 1_000:
            _flush()


if _PATH:
    atexit.register(_flush)
