"""Admission of pods of ours: the disruption budget annotations (scheduling/AS-13)."""

from __future__ import annotations

from typing import Any

from events import names
from events.canonical import Json
from events.kinds import POD
from events.reading import spec
from scheduling.admission.lookup import Lister, denied, notes_of

_BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")


def admit(verb: str, new: Json | None, old: Json | None, lister: Lister) -> None:
    """Judge a pod that is created. Raises Denied."""
    if verb != "create" or new is None or spec(new).get("schedulerName") not in names.SCHEDULER_NAMES:
        return
    given = [key for key in _BUDGETS if key in notes_of(new)]
    if len(given) > 1:
        raise denied(POD, f"not allow configure multiple annotations <{' '.join(given)}> at same time")
    for key in given:
        problem = _problem(key, notes_of(new)[key])
        if problem:
            raise denied(POD, problem)


def _problem(key: str, value: Any) -> str:
    """A budget is a positive number, or 1% to 99%."""
    written = value if isinstance(value, str) else ""
    number = written.removesuffix("%")
    digits = number.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return f'invalid value "{value}" for {key}'
    if written.endswith("%"):
        inside = 0 < int(number) < 100
        return "" if inside else f'invalid value <"{value}"> for {key}, it must between 1% ~ 99%'
    return "" if int(number) > 0 else f'invalid value <"{value}"> for {key}, it must be a positive integer'
