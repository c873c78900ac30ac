"""What a lifecycle policy of a VolcanoJob may say (scheduling/J-2, J-14)."""

from __future__ import annotations

from typing import Any

from events.reading import items, text, whole

EVENTS = ("*", "PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "JobUpdated", "Unknown")
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)


def problem_of_policies(policies: Any) -> str:
    """Return what is wrong with a list of policies, empty if nothing."""
    events: list[str] = []
    codes: list[int] = []
    for policy in items(policies):
        named = _events(policy)
        problem = _shape(policy, named) or (_code(policy, codes) if not named else _named(policy, named, events))
        if problem:
            known = f"valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}]"
            return f"{problem} {known}"
    if "*" in events and len(events) > 1:
        return "if there's * here, no other policy should be here"
    return ""


def _events(policy: dict[str, Any]) -> list[str]:
    named = policy.get("events")
    found = [text(event) for event in named] if isinstance(named, list) else []
    if policy.get("event"):
        found.append(text(policy["event"]))
    return found


def _shape(policy: dict[str, Any], named: list[str]) -> str:
    if named and policy.get("exitCode") is not None:
        return "must not specify event and exitCode simultaneously"
    if not named and policy.get("exitCode") is None:
        return "either event and exitCode should be specified"
    if policy.get("action") not in ACTIONS:
        return f'policies.action: Invalid value: "{policy.get("action")}": invalid policy action'
    return ""


def _named(policy: dict[str, Any], named: list[str], events: list[str]) -> str:
    for event in named:
        if event not in EVENTS:
            return f'policies.event: Invalid value: "{event}": invalid policy event'
        if event == "PodPending" and not policy.get("timeout"):
            return "policies.timeout: Required value: event PodPending needs a timeout"
        if event in events:
            return f"duplicate event {event} across different policy"
        events.append(event)
    return ""


def _code(policy: dict[str, Any], codes: list[int]) -> str:
    code = whole(policy.get("exitCode"))
    if not code:
        return f"{policy.get('exitCode')} is not a valid error code"
    if code in codes:
        return f"duplicate exitCode {code}"
    codes.append(code)
    return ""
