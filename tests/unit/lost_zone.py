"""A zone that is there and then gone, as after an upgrade of tzdata: a file that comes before those of the package."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from tests.compiled_schedules import forget_zones
from waterclock.model.job import Cron

ZONE = "Mars/Base"
MARS = Cron("* * * * *", zone=ZONE)


@contextmanager
def zone_in(folder: Path) -> Iterator[None]:
    """The zone is there, until somebody calls ``know``."""
    (folder / "Mars").mkdir()
    data = resources.files("tzdata").joinpath("zoneinfo", "Europe", "Berlin").read_bytes()
    (folder / ZONE).write_bytes(data)
    know(folder)
    yield
    know()


def know(*folders: Path) -> None:
    """From now on the zones in these folders and those of the package are known, and no others."""
    zoneinfo.reset_tzpath(to=[str(folder) for folder in folders])
    forget_zones()
