"""Why a pod or a PodGroup waits, in one text (scenario format, *Reasons*): one line per source, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from events import names
from events.canonical import Json
from scheduling.state.model import Model
from services.simulator.truth import Truth, node_of, notes


def of_pod(name: str, truth: Truth, model: Model, refusals: Mapping[str, str]) -> str | None:
    """Return the reason of a pod, None for a bound one."""
    pod = truth.pod(name)
    if node_of(pod):
        return None
    lines: list[str] = []
    if pod is not None:
        lines += _conditions(pod, lambda item: item.get("type") == "PodScheduled" and item.get("status") == "False")
        lines += _event(truth, "Pod", pod, "FailedScheduling")
        lines += _of_group_of(pod, truth)
    refusal = refusals.get(f"Pod/{name}")
    if refusal:
        lines.append(refusal)
    if model.config is None:
        lines += model.config_report.errors
    return "\n".join(lines)


def of_group(name: str, truth: Truth) -> str:
    """Return the reason of a PodGroup: its conditions and its event."""
    group = truth.group(name)
    return "\n".join(_group_lines(group, truth)) if group is not None else ""


def _of_group_of(pod: Json, truth: Truth) -> list[str]:
    name = notes(pod).get(names.GROUP_NAME, "")
    group = truth.group(f"{pod['metadata'].get('namespace')}/{name}") if name else None
    return _group_lines(group, truth) if group is not None else []


def _group_lines(group: Json, truth: Truth) -> list[str]:
    lines = _conditions(group, lambda item: item.get("status") == "True" and item.get("type") != "Scheduled")
    return lines + _event(truth, "PodGroup", group, "Unschedulable")


def _conditions(item: Json, wanted: Callable[[Json], bool]) -> list[str]:
    found = (item.get("status") or {}).get("conditions") or []
    return [
        f"{condition.get('reason') or ''}: {condition.get('message') or ''}" for condition in found if wanted(condition)
    ]


def _event(truth: Truth, kind: str, item: Json, reason: str) -> list[str]:
    event = truth.newest_event(kind, item, reason)
    return [f"{reason}: {event.get('message') or ''}"] if event is not None else []
