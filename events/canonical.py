"""Canonical JSON: equal content is equal bytes, on any machine.

Keys are sorted, there is no blank, no float, and everything outside ASCII is escaped, so that even a lone surrogate
has one valid spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _spelling() -> Callable[[Any], str]:
    """Return the encoder, made once where the C implementation is there: making it costs as much as most values do."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _ENCODER.encode
    chunks = make(None, _ENCODER.default, json.encoder.encode_basestring_ascii, None, ":", ",", True, False, True)
    return lambda value: "".join(chunks(value, 0))


_spell = _spelling()
#: What every float's spelling has, and few texts.
_FLOAT_PERHAPS = re.compile(r"(?:[:,\[]|^)-?(?:[0-9]+[.eE]|[NI])")


def encode(value: Any) -> bytes:
    """Return the canonical bytes of a JSON value.

    Raises ValueError for a float and TypeError for what is not JSON.
    """
    text = _spell(value)
    if _FLOAT_PERHAPS.search(text):
        _refuse_floats(value)
    return text.encode("ascii")


def trusted(value: Any) -> bytes:
    """Return the canonical bytes of a value that is known to hold no float: one that was read from a log."""
    return _spell(value).encode("ascii")


def _refuse_floats(value: Any) -> None:
    if isinstance(value, float):
        raise ValueError(f"{value!r}: a record holds no floats")
    if isinstance(value, dict):
        for item in value.values():
            _refuse_floats(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_floats(item)
