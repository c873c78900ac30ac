"""Typed readers of plugin and action arguments (scheduling/CFG-11, devices/P-11).

A value of the wrong type is as if it were absent: the default stays, and a warning names value, key and type.
Readers add to ``warnings`` where a list is given; what runs after the file was judged reads without one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from scheduling.config.plain import shown

#: The strings that are booleans too.
BOOLEAN_WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}

_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(ns|us|µs|μs|ms|s|m|h)")
_NANOSECONDS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_DURATION_LENGTH_MAX = 64

Arguments = Mapping[str, Any]
Warnings = list[str] | None


def as_boolean(value: Any) -> bool | None:
    """Return a YAML boolean or one of the boolean strings as a boolean, None for anything else."""
    if isinstance(value, bool):
        return value
    return BOOLEAN_WORDS.get(value) if isinstance(value, str) else None


def as_integer(value: Any) -> int | None:
    """Return a YAML integer, None for anything else (a quoted number included)."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_number(value: Any) -> Fraction | None:
    """Return a YAML number exactly as it is written, None for anything else, infinity and NaN included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return Fraction(str(value))
    except ValueError:
        return None


def as_duration(value: Any) -> int | None:
    """Return a duration (``10m``, ``1h30m``, ``0``) in milliseconds, rounded down; None if it is none or negative."""
    text = str(value) if as_integer(value) == 0 else value
    if not isinstance(text, str) or len(text) > _DURATION_LENGTH_MAX:
        return None
    text = text.removeprefix("+")
    if text == "0":
        return 0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    total = sum(Fraction(f"0{number}0" if "." in number else number) * _NANOSECONDS[unit] for number, unit in parts)
    return int(total / 10**6)


def as_text(value: Any) -> str | None:
    """Return a YAML string, None for anything else."""
    return value if isinstance(value, str) else None


def boolean(arguments: Arguments, key: str, default: bool, warnings: Warnings = None) -> bool:
    """Read a boolean: a YAML one, or one of the strings of CFG-11."""
    found = as_boolean(arguments[key]) if key in arguments else default
    return default if _refused(found, arguments, key, "bool", warnings) or found is None else found


def integer(arguments: Arguments, key: str, default: int, warnings: Warnings = None) -> int:
    """Read an integer: YAML integers only."""
    found = as_integer(arguments[key]) if key in arguments else default
    return default if _refused(found, arguments, key, "int", warnings) or found is None else found


def number(arguments: Arguments, key: str, default: Fraction, warnings: Warnings = None) -> Fraction:
    """Read a number, exactly: a YAML float or integer."""
    found = as_number(arguments[key]) if key in arguments else default
    return default if _refused(found, arguments, key, "float", warnings) or found is None else found


def string(arguments: Arguments, key: str, default: str, warnings: Warnings = None) -> str:
    """Read a string: YAML strings only."""
    found = as_text(arguments[key]) if key in arguments else default
    return default if _refused(found, arguments, key, "string", warnings) or found is None else found


def duration(arguments: Arguments, key: str, default: int, warnings: Warnings = None) -> int:
    """Read a duration in milliseconds: a string as ``10m`` or ``1h30m``, or 0."""
    found = as_duration(arguments[key]) if key in arguments else default
    return default if _refused(found, arguments, key, "duration", warnings) or found is None else found


def _refused(found: object, arguments: Arguments, key: str, kind: str, warnings: Warnings) -> bool:
    """Tell whether a value that is there was not taken, and warn of it."""
    if found is not None:
        return False
    if warnings is not None:
        warnings.append(f"Could not parse argument: {shown(arguments[key])} for key {key} to {kind}")
    return True
