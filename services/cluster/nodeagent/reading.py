"""What node agents read of pods and nodes, beyond ``events.reading``."""

from __future__ import annotations

from events.canonical import Json
from events.reading import mapping, meta, spec, text


def note(item: Json | None, key: str) -> str:
    """Return an annotation, empty if it is absent or no text."""
    return text(mapping(meta(item).get("annotations")).get(key))


def node_of(pod: Json) -> str:
    return text(spec(pod).get("nodeName"))
