"""Kubernetes quantities, exactly: no float, no wrap, no guess (devices/R-5a, R-8)."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

_GRAMMAR = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([eE])([+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST = 64  # characters; the API server's own texts are far shorter
_EXPONENT_MAX = 60  # beyond any machine; keeps 1e999 from filling the memory


def parse(value: Any) -> Fraction | None:
    """Return the exact value of a quantity as the API gives it (a string or a whole number), or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    return _parse(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=65536)
def _parse(text: str) -> Fraction | None:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return None
    sign, number, _, exponent, suffix = match.groups()
    if exponent is not None:
        if abs(int(exponent)) > _EXPONENT_MAX:
            return None
        factor = Fraction(10) ** int(exponent)
    elif suffix in _BINARY:
        factor = Fraction(2) ** _BINARY[suffix]
    else:
        factor = Fraction(10) ** _DECIMAL[suffix or ""]
    whole = Fraction(number if number[0] != "." else "0" + number)
    return (-whole if sign == "-" else whole) * factor


def milli(value: Any) -> int | None:
    """Return the quantity in thousandths, rounded up as the API does, or None if it is no quantity."""
    exact = parse(value)
    return None if exact is None else ceil(exact * 1000)


def whole(value: Any) -> int | None:
    """Return the quantity if it is a whole number, else None."""
    exact = parse(value)
    return exact.numerator if exact is not None and exact.denominator == 1 else None


def canonical(value: Any) -> str:
    """Return a quantity as the API server returns it: ``0.5`` reads ``500m``, ``1024Mi`` reads ``1Gi``.

    What is no quantity is returned as its own text.
    """
    exact = parse(value)
    if exact is None:
        return str(value)
    match = _GRAMMAR.fullmatch(str(value))
    suffix = match.group(5) if match else None
    if suffix in _BINARY and exact.denominator == 1 and abs(exact) >= 1024:
        return _largest(exact, [(name, Fraction(2) ** power) for name, power in _BINARY.items()])
    if match and match.group(3) and exact.denominator == 1:
        return _exponent(exact)
    return from_milli(ceil(exact * 1000))


def _largest(exact: Fraction, units: list[tuple[str, Fraction]]) -> str:
    fitting = [("", Fraction(1)), *units]
    name, unit = max((item for item in fitting if (exact / item[1]).denominator == 1), key=lambda item: item[1])
    return f"{(exact / unit).numerator}{name}"


def _exponent(exact: Fraction) -> str:
    power = 0
    while exact and power < _EXPONENT_MAX and (exact / 1000).denominator == 1:
        exact, power = exact / 1000, power + 3
    return f"{exact.numerator}e{power}" if power else str(exact.numerator)


@lru_cache(maxsize=65536)
def from_milli(amount: int) -> str:
    """Return thousandths as a canonical decimal quantity: 2000000 is ``2k``, 500 is ``500m``, 0 is ``0``."""
    if amount == 0:
        return "0"
    if amount % 1000:
        return f"{amount}m"
    units = [(name, Fraction(10) ** power) for name, power in _DECIMAL.items() if power > 0]
    return _largest(Fraction(amount // 1000), units)


@lru_cache(maxsize=65536)
def from_bytes(amount: int) -> str:
    """Return bytes as a canonical binary quantity where that is exact: 1073741824 is ``1Gi``."""
    if amount == 0 or amount % 1024:
        return str(amount)
    return _largest(Fraction(amount), [(name, Fraction(2) ** power) for name, power in _BINARY.items()])
