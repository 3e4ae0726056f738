"""Which faults this machine lets us make: asked once, before anything starts; what it forbids is left out, aloud.

Nothing here touches the system's clock, its network or anybody else's processes: a private mount namespace is this
process's own (and its children's), and a faked clock is that of one process.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CLOCK, DISK = "clock", "full-disk"
_CLONE_NEWNS = 0x00020000
_FAKED_PYTHON = Path(__file__).with_name("faked_python")
_AHEAD_PYTHON = Path(__file__).with_name("ahead_python")
_FAKETIME = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)
_PROBE_S = 10


class Rights(NamedTuple):
    """``faketime``: the library, "" where there is none. ``left_out``: kind of fault -> why."""

    faketime: str
    own_mounts: bool
    left_out: dict[str, str]


def probe(folder: Path) -> Rights:
    """What may be done here. Where mounts may be had, this process is in a mount namespace of its own afterwards.

    Call it from the main thread before any other runs: a namespace is a thread's.
    """
    left_out = {}
    faketime, why = _faketime()
    if not faketime:
        left_out[CLOCK] = why
    why = _own_mounts(folder)
    if why:
        left_out[DISK] = why
    return Rights(faketime, not why, left_out)


def mount_small_disk(place: Path, size_mb: int) -> None:
    """A tmpfs of this size, seen by this process and its children alone; gone when the last of them is."""
    place.mkdir(parents=True, exist_ok=True)
    size = f"size={size_mb}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=True, timeout=_PROBE_S)


def resize_disk(place: Path, size_bytes: int) -> bool:
    """Whether that tmpfs has this size now: what is in use cannot be taken away from it."""
    size = f"remount,size={size_bytes}"
    return not subprocess.run(
        ["mount", "-o", size, str(place)], capture_output=True, timeout=_PROBE_S, check=False
    ).returncode


def unmount(place: Path) -> None:
    """Lazily: a process that is just ending may still have a file there."""
    subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=_PROBE_S)


def _faketime() -> tuple[str, str]:
    """(the library, "") or ("", why not): it must fake this interpreter's clock and leave the monotonic one alone."""
    library = next((path for path in _FAKETIME if Path(path).exists()), "")
    if not library:
        return "", "libfaketime is not installed (Debian: apt install libfaketime)"
    env = {**os.environ, **faked(library, "+86400")}
    asked = "import time; time.sleep(0.01); print(time.time(), time.monotonic())"
    done = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, timeout=_PROBE_S, check=False
    )
    here = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=_PROBE_S, check=True)
    if done.returncode:
        return "", f"a process under libfaketime ended with {done.returncode}"
    (wall, steady), (real_wall, real_steady) = (map(float, said.stdout.split()) for said in (done, here))
    works = wall - real_wall > 80_000 and abs(steady - real_steady) < 60
    return (library, "") if works else ("", f"libfaketime does not do what it should: {done.stdout}")


def faked(library: str, offset: str = "", file: Path | None = None) -> dict[str, str]:
    """The environment of a process whose wall clock is off by ``offset``, or by what stands in ``file``."""
    given = {"FAKETIME": offset} if file is None else {"FAKETIME_TIMESTAMP_FILE": str(file)}
    return {
        "LD_PRELOAD": library,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_RESET": "1",
        "PYTHONPATH": str(_FAKED_PYTHON),
        **given,
    }


def ahead(seconds: int) -> dict[str, str]:
    """The environment of a Python process whose wall clock is ahead by so much, and no library's in C."""
    return {"CLOCK_AHEAD_S": str(seconds), "PYTHONPATH": str(_AHEAD_PYTHON)}


def _own_mounts(folder: Path) -> str:
    """Why we may not mount; "" where we may, and from now on do so unseen by anybody else."""
    if sys.platform != "linux" or shutil.which("mount") is None:
        return "there is no Linux mount here"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    private = subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, timeout=_PROBE_S, check=False)
    if private.returncode:
        return f"mount --make-rprivate: {private.stderr.decode().strip()}"
    place = folder / "probe"
    try:
        mount_small_disk(place, 1)
    except subprocess.CalledProcessError as error:
        return f"mount -t tmpfs ended with {error.returncode}"
    unmount(place)
    place.rmdir()
    return ""
