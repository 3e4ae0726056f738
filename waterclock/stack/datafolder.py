"""The data folder of one server: whose it is, of which version, and with which numbers it was made.

A folder written by another version is refused before the server can touch it: both servers upgrade data on sight, and
neither can go back. Fails with StackTrouble.
"""

from __future__ import annotations

from pathlib import Path

from .jars import Distribution
from .trouble import StackTrouble


def claim_folder(folder: Path, distribution: Distribution) -> None:
    """Make ``folder`` this distribution's, or check that it is. Raises StackTrouble for data of another version."""
    mark = folder / "VERSION"
    wanted = f"{distribution.name} {distribution.version}"
    folder.mkdir(parents=True, exist_ok=True)
    found = mark.read_text().strip() if mark.exists() else ""
    if found and found != wanted:
        raise StackTrouble(
            f"{folder} holds data of {found}; this release runs {wanted}",
            hint=(
                f"Keep a copy (tar czf waterclock-data.tar.gz {folder}), then start afresh: waterclock down --purge "
                "&& waterclock up"
            ),
        )
    if not found:
        mark.write_text(f"{wanted}\n")
