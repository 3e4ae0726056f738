"""One name for many failures: the group under which dead letters and the failure list show the same trouble.

Must hold: the retry router and the recorder compute the same text, so that a dead letter and its line in the list
meet. Two messages that differ in numbers, quoted words or addresses alone are one trouble.
"""

from __future__ import annotations

import re
from hashlib import sha256

_DIGITS_KEPT = 16
_CONSIDERED_MAX = 1_000
_PARTICULARS = re.compile(r"""0x[0-9a-fA-F]+|'[^']*'|"[^"]*"|\d+""")


def fingerprint(error_class: str, message: str) -> str:
    """16 hex digits of the error's class and of its message without particulars. Looks at 1,000 characters."""
    gist = _PARTICULARS.sub("#", message[:_CONSIDERED_MAX])
    return sha256(f"{error_class}\n{gist}".encode()).hexdigest()[:_DIGITS_KEPT]
