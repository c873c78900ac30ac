"""What waits and why, as plain JSON and in lines for people: from a queue down to the cards of a node.

The reasons are those that a decision on the state finds now (``scheduling.why``), the counts what was said last.
"""

from __future__ import annotations

from collections import Counter

from events.canonical import Json
from scheduling import waiting, why
from scheduling.reasons import texts
from scheduling.reasons.kinds import NoNode
from scheduling.reasons.tree import GangReason, PodReason
from scheduling.remedies import ahead, least_change
from scheduling.state.model import Model

#: How many nodes and PodGroups are shown to people; JSON has them all.
_SHOWN = 20


def outlook(model: Model, group: str) -> Json:
    """What would let a waiting group run, found by deciding again on a changed state, and who is ahead of it."""
    remedy = least_change(model, group, model.time_ms)
    gang = why.why(model, group, model.time_ms)
    found: Json = {"wouldRunIf": remedy.text if remedy else "", "ahead": ahead(model, group, model.time_ms)}
    if gang is not None:
        found["gangWaits"] = _gang(gang)
        found["why"] = [_pod(pod) for pod in gang.pods]
        found["queueWaits"] = counts(model, gang.queue)["pods"]
    return found


def counts(model: Model, queue: str) -> Json:
    """How many PodGroups and pods wait in a queue, by cause."""
    found = next((item for item in waiting.queues(model) if item.queue == queue), None)
    return {"podGroups": dict(found.groups) if found else {}, "pods": dict(found.pods) if found else {}}


def in_queue(model: Model, queue: str) -> list[Json]:
    """The PodGroups that wait in a queue, in the order in which they have their turns."""
    return [_gang(gang) | {"pods": _causes(gang)} for gang in why.queue(model, queue, model.time_ms)]


def _gang(gang: GangReason) -> Json:
    text = texts.gang_summary(gang)
    return {"podGroup": gang.group, "cause": gang.cause.value, "lacking": gang.lacking, "text": text}


def _causes(gang: GangReason) -> Json:
    return dict(sorted(Counter(pod.reason.cause.value for pod in gang.pods).items()))


def _pod(found: PodReason) -> Json:
    """A waiting pod's reason, down to nodes and cards."""
    answers = found.reason.answers if isinstance(found.reason, NoNode) else {}
    nodes = [
        {
            "node": name,
            "reason": answer.reason,
            "detail": answer.detail,
            "cards": [{"gpu": card.gpu, "word": card.word} for card in answer.cards],
        }
        for name, answer in sorted(answers.items())
    ]
    return {"pod": found.pod, "cause": found.reason.cause.value, "text": texts.text(found.reason), "nodes": nodes}


# --- for people ------------------------------------------------------------------------------------------------------


def lines(found: Json) -> list[str]:
    """Return what an explanation says of waiting."""
    shown = [f"  {'ahead of it':<14} {group}" for group in found.get("ahead", ())]
    if "gangWaits" in found:
        shown.append(f"  {'gang waits':<14} {found['gangWaits']['cause']}: {found['gangWaits']['text']}")
    shown += [line for item in found.get("why", ()) for line in _pod_lines(item)]
    if found.get("queueWaits"):
        shown.append(f"  {'queue waits':<14} {_counted(found['queueWaits'])}")
    for what, label in (("podGroups", "groups wait"), ("pods", "pods wait")):
        if found.get("waits", {}).get(what):
            shown.append(f"  {label:<14} {_counted(found['waits'][what])}")
    for name, below in found.get("below", {}).items():
        shown.append(f"  {'queue below':<14} {name}: {_counted(below['podGroups']) or 'no PodGroup waits'}")
    waits = found.get("waiting", ())
    shown += [f"  {'waits':<14} {item['podGroup']}: {item['cause']}: {item['text']}" for item in waits[:_SHOWN]]
    return [*shown, *_more("waits", len(waits))]


def _pod_lines(item: Json) -> list[str]:
    shown = [f"  {'waits':<14} {item['pod']}: {item['cause']}"]
    for node in item["nodes"][:_SHOWN]:
        shown.append(f"    {'node':<12} {node['node']}: {node['detail'] or node['reason']}")
        shown += [f"      {'card':<10} {card['gpu']}: {card['word']}" for card in node["cards"]]
    return [*shown, *(f"  {line}" for line in _more("nodes", len(item["nodes"])))]


def _more(what: str, count: int) -> list[str]:
    return [f"  {what:<14} and {count - _SHOWN} more"] if count > _SHOWN else []


def _counted(found: Json) -> str:
    return ", ".join(f"{count} {cause}" for cause, count in found.items())
