"""The ledger of connections: built from C, laid under a process, read back as (kind, address, port)."""

from __future__ import annotations

import shutil
import subprocess
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

_SOURCE = Path(__file__).with_name("connect_ledger.c")
_BUILD_S = 60.0


class Tried(NamedTuple):
    """One connection that a process tried to make. An IPv4-mapped address is told as the IPv4 address that it is."""

    kind: str
    address: str
    port: int

    @property
    def public(self) -> bool:
        """By the standard library's judgement, which is not the product's."""
        address = ip_address(self.address)
        return address.is_global and not address.is_multicast


class Ledger:
    """``env`` lays it under a process. Raises FileNotFoundError where there is no C compiler."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise FileNotFoundError("the ledger of connections needs a C compiler (Debian: apt install gcc)")
        self._library = folder / "connect_ledger.so"
        self._path = folder / "connections.txt"
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=_BUILD_S)

    @property
    def env(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CONNECT_LEDGER": str(self._path)}

    def read(self) -> list[Tried]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [_tried(*line.split(" ")) for line in lines]


def _tried(kind: str, address: str, port: str) -> Tried:
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        address = str(parsed.ipv4_mapped)
    return Tried(kind, address, int(port))
