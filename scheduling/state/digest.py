"""The state's digest, kept up to date with every change instead of being computed anew.

The state is a set of named parts. The digest is the sum of the parts' hashes modulo 2^256, so it depends on what the
parts are and not on the order in which they came. A live state and a rebuilt one with equal parts have equal digests.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from events import canonical

_MODULUS = 1 << 256


class Digest:
    """A multiset hash over named parts. Setting a part to None removes it."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], int] = {}
        self._late: dict[tuple[str, str], Callable[[], Any]] = {}
        self._total = 0

    def set(self, kind: str, name: str, content: Any) -> None:
        """Replace one part by its present content (any JSON value without floats; None removes it)."""
        self._late.pop((kind, name), None)
        self._replace(kind, name, content)

    def set_late(self, kind: str, name: str, content: Callable[[], Any]) -> None:
        """Replace one part whose content is asked for when the digest is next read (many changes, one hash)."""
        self._late[(kind, name)] = content

    def has(self, kind: str, name: str) -> bool:
        """Tell whether a part is there, as it was when the digest was last read."""
        return (kind, name) in self._parts

    def _replace(self, kind: str, name: str, content: Any) -> None:
        old = self._parts.pop((kind, name), 0)
        new = 0
        if content is not None:
            label = f"{kind}\0{name}\0".encode("utf-8", "surrogatepass")
            new = int.from_bytes(sha256(label + canonical.trusted(content)).digest(), "big")
            self._parts[(kind, name)] = new
        self._total = (self._total - old + new) % _MODULUS

    def hex(self) -> str:
        """Return the digest as 64 hexadecimal digits."""
        late, self._late = self._late, {}
        for (kind, name), content in late.items():
            self._replace(kind, name, content())
        return f"{self._total:064x}"
