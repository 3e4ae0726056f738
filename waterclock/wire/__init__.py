"""Bytes in and out: Avro single objects, text headers, names of topics and groups.

Every run event and work record is encoded once and decoded by four roles, by hand-written Python; the same files,
compiled (``compiled/``, ``pip install waterclock-compiled``), take a third of the time. Must hold: the compiled
modules are used only where they were made from exactly the sources that lie here, told by a digest, so that an edit or
an upgrade never runs old code; without them everything works. ``WATERCLOCK_COMPILED=0`` passes them over.
"""

from __future__ import annotations

import importlib
import os
from hashlib import blake2b
from pathlib import Path

COMPILED = ("binary", "glance", "run_event", "work_record")
"""The modules that may be compiled."""

_HERE = Path(__file__).parent


def digest_of_sources() -> str:
    """What tells the sources of the compiled modules from others."""
    digest = blake2b(digest_size=12)
    for name in COMPILED:
        digest.update((_HERE / f"{name}.py").read_bytes())
    return digest.hexdigest()


def _folder_of_compiled() -> str | None:
    """Where the compiled modules lie; None where there are none, or they are none of these sources."""
    if os.environ.get("WATERCLOCK_COMPILED") == "0":
        return None
    try:
        made = importlib.import_module("waterclock_compiled")
    except ImportError:
        return None
    if digest_of_sources() != made.DIGEST:
        return None
    return str(Path(str(made.__file__)).parent / "wire")


compiled_folder = _folder_of_compiled()
"""None: the modules are Python."""

if compiled_folder is not None:
    __path__.insert(0, compiled_folder)
