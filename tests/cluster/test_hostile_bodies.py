"""What comes over the socket is bounded, and read by everybody alike (services.cluster: wire, patches)."""

from __future__ import annotations

import json

import pytest

from services.cluster import patches, wire
from services.cluster.refusal import Refused

DOUBLING = [{"op": "copy", "from": "/a", "path": f"/a/x{number}"} for number in range(64)]


def test_copies_of_copies_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(Refused, match="accumulated size increase of copy") as found:
        patches.json_patch({"a": {"b": "c"}}, DOUBLING)
    assert found.value.status == 413


def test_copies_as_people_make_them_are_made() -> None:
    patched = patches.json_patch({"a": {"b": "c"}}, DOUBLING[:3])
    assert patched["a"]["x1"] == {"b": "c", "x0": {"b": "c"}}


@pytest.mark.parametrize(
    ("body", "media_type", "field"),
    [
        (b'{"metadata": {"name": "a", "name": "b"}}', "application/json", "name"),
        (b'{"spec": {}, "spec": {"x": 1}}', "application/merge-patch+json", "spec"),
        (b'{"s\\u0070ec": 1, "spec": 2}', "application/json", "spec"),
        (b"metadata:\n  name: a\n  name: b\n", "application/yaml", "name"),
        (b'{metadata: {name: a, "name": b}}', "application/apply-patch+yaml", "name"),
    ],
)
def test_a_key_that_stands_there_twice_is_named(body: bytes, media_type: str, field: str) -> None:
    """One reader would take the first, another the last."""
    with pytest.raises(Refused, match=f"duplicate field '{field}'") as found:
        wire.decode(body, media_type)
    assert found.value.status == 400


def test_many_keys_once_are_read() -> None:
    content = {f"k{number}": {"name": number} for number in range(50_000)}
    assert wire.decode(json.dumps(content).encode(), "application/json") == content
