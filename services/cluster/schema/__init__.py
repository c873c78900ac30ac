"""The fields of every kind that is served, by name and type: one table for validation and for OpenAPI.

``core.json`` holds the core kinds, ``volcano.json`` the custom resources. A definition maps a field to its type:
``string``, ``integer``, ``number``, ``boolean``, ``time``, ``quantity``, ``intstr``, ``any``, ``&Name`` (another
definition), ``[]type`` and ``{}type``. ``core.json`` is derived from the client library's models by
``tests/cluster/test_schema.py``, which also shows that it is current.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from events.kinds import Kind
from services.cluster.routes import CUSTOM

Definition = dict[str, str]


@cache
def definitions() -> dict[str, Definition]:
    """Return all definitions, by name."""
    found: dict[str, Definition] = {}
    for name in ("core.json", "volcano.json"):
        found |= json.loads((files(__name__) / name).read_text(encoding="utf-8"))
    return found


def name_of(kind: Kind) -> str:
    """Return the definition's name of a kind."""
    return f"volcano.{kind.name}" if kind in CUSTOM else kind.name
