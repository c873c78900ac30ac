"""Bytes to JSON values and back, safely: what may come over the socket, and in which forms answers go out.

Whatever cannot be read is refused with 400 and a reason: broken JSON or YAML, a key that stands there twice, numbers
that are none, more depth or bytes than an object needs, YAML aliases (which grow without bound).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml

from services.cluster import patches, protobuf
from services.cluster.refusal import Refused, bad_request

BODY_BYTES_MAX = 3 * 1024 * 1024
DEPTH_MAX = 100

_JSON = ("application/json", patches.JSON_PATCH, patches.MERGE_PATCH, patches.STRATEGIC_PATCH)
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", patches.APPLY_PATCH)


class _Loader(yaml.SafeLoader):
    """YAML as JSON: no aliases, no dates, and keys are texts."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise bad_request("error converting YAML to JSON: aliases are not accepted")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        _refuse_twice([key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def media_type(header: str) -> str:
    """Return a content type without its parameters."""
    return header.partition(";")[0].strip().lower()


def decode(data: bytes, content_type: str) -> Any:
    """Return the JSON value in a body, None if it is empty. Raises Refused: 400, 413, 415."""
    if len(data) > BODY_BYTES_MAX:
        raise Refused(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_BYTES_MAX}")
    if not data.strip():
        return None
    if content_type in _YAML:
        value = _yaml(data)
    elif content_type == protobuf.MEDIA_TYPE:
        value = protobuf.decode(data)
    elif content_type in _JSON or content_type in ("", "application/octet-stream", "text/plain"):
        value = _json(data)
    else:
        message = (f"the body of the request was in an unknown format - accepted media types include: "
                   f"{', '.join(_JSON + _YAML)}")  # fmt: skip
        raise Refused(415, "UnsupportedMediaType", message)
    _bounded(value)
    return value


def _json(data: bytes) -> Any:
    try:
        return _json_text(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise bad_request(f"error decoding JSON: {error or type(error).__name__}") from error


def _json_text(text: str) -> Any:
    return json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, each of whose keys stands there once: what one reader took the other would overlook."""
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse_twice([name for name, _ in pairs])
    return found


def _refuse_twice(keys: list[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"duplicate field {key[:100]!r}")
        seen.add(key)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value


def _yaml(data: bytes) -> Any:
    try:
        text = data.decode("utf-8")
        if text.lstrip().startswith("{"):
            try:
                return _json_text(text)
            except ValueError:
                pass  # a flow mapping of YAML may begin like this too
        return _plain(yaml.load(text, _Loader), 0)
    except (ValueError, yaml.YAMLError, RecursionError, AttributeError, TypeError) as error:
        shown = re.sub(r"\s+", " ", str(error)) or type(error).__name__
        raise bad_request(f"error converting YAML to JSON: {shown}") from error


def _plain(value: Any, depth: int) -> Any:
    """Return a YAML value as JSON."""
    if depth > DEPTH_MAX:
        raise bad_request(f"the object is nested deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ValueError(f"a value of type {type(value).__name__} is not JSON")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int | float):
        return str(key)
    raise ValueError(f"a key of type {type(key).__name__} is not JSON")


def _bounded(value: Any) -> None:
    """Refuse what is nested too deeply."""
    layer, depth = [value], 0
    while layer:
        if depth > DEPTH_MAX:
            raise bad_request(f"the object is nested deeper than {DEPTH_MAX}")
        layer = [inner for item in layer for inner in _children(item)]
        depth += 1


def _children(item: Any) -> list[Any]:
    nested = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return [inner for inner in nested if isinstance(inner, dict | list)]


def encode(value: Any) -> bytes:
    """Return a JSON value as bytes."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def accepts(header: str, kind: str) -> str:
    """Return the media type in an Accept header that asks for this form (``Table``), empty if none does first.

    Types are taken in the order in which they stand, as clients list them by preference.
    """
    for part in header.split(","):
        pairs = [item.partition("=") for item in part.split(";")[1:]]
        parameters = {key.strip(): value.strip() for key, _, value in pairs}
        if parameters.get("as") == kind and media_type(part) == "application/json":
            return part.strip()
        if not parameters.get("as") and media_type(part) in ("application/json", "*/*"):
            return ""
    return ""
