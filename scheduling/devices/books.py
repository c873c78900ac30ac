"""The device books of one node: a value. A placement is a new value, undoing it is the old one (devices/A-14).

Everything here is a pure function of the node's registration, the live claims and the environment (configuration), so
the live books and rebuilt books are equal (K-5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NodeDevices:
    """Cards of a node and who holds what on them."""

    name: str
    resource_names: frozenset[str] = field(default_factory=frozenset)
    claims: Mapping[str, object] = field(default_factory=dict)

    def only_orphans(self, uid: str) -> bool:
        """Tell whether this pod has shares and none of them is on a registered card (devices/N-21a)."""
        raise NotImplementedError

    def without_claim(self, uid: str) -> NodeDevices:
        """Return the books without this pod's claim; twice is the same as once (devices/A-16a)."""
        raise NotImplementedError
