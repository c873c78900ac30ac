"""The points at which a service can be crashed, as ``crash`` steps and ``--crash-points`` name them."""

from __future__ import annotations

from typing import Final

#: Name -> (who comes to it, what has happened there).
CRASH_POINTS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "before-command": (("scheduler",), "the decision is made, nothing of it is on the log"),
    "after-command": (
        ("scheduler", "binder"),
        "the decision and its commands are on the log, nothing else was done",
    ),
    "before-bind": (("binder",), "the command was read, the API call was not made"),
    "after-bind": (("binder",), "the API call was made, its outcome was not recorded"),
    "after-outcome": (("binder",), "the outcome is on the log, nothing else was done"),
}


def listing() -> str:
    """Return the crash points as text, a line each: name, who, what has happened."""
    return "".join(f"{name:16} {' or '.join(who):20} {what}\n" for name, (who, what) in CRASH_POINTS.items())
