"""Assertions: each key of an item is judged on the facts and says what was wanted and what was found.

``failures`` returns one text per key that does not hold, empty if the whole item does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from events.kinds import QUEUE
from scheduling import quantity
from services.simulator import reasons, truth
from services.simulator.document import KIND_BY_WORD
from services.simulator.facts import Facts
from services.simulator.podassertions import POD_KEYS, bound_with_devices
from services.simulator.wording import contains, differs, show, want


def failures(item: dict[str, Any], facts: Facts) -> list[str]:
    """Return what does not hold of an item, one text per key."""
    found: list[str] = []
    for subject, judge in _SUBJECTS.items():
        if subject in item:
            found += judge(item, facts)
    return found


def _pod(item: dict[str, Any], facts: Facts) -> list[str]:
    name = item["pod"]
    keys = [key for key in item if key in POD_KEYS]
    if not facts.known(f"Pod/{name}"):
        return [f"pod {name}: no document holds it and no controller made it"]
    if facts.truth.pod(name) is None and not keys and "annotation" not in item:
        return [f"pod {name}: want it there, found none"]
    found = [(key, POD_KEYS[key](name, item[key], facts)) for key in keys]
    return [f"pod {name} {key}: {said}" for key, said in found if said is not None]


def _annotation(item: dict[str, Any], facts: Facts) -> list[str]:
    name, key = item["pod"], item["annotation"]
    pod = facts.truth.pod(name)
    label = f"pod {name} annotation {key}"
    if pod is None:
        return [f"{label}: the pod is not there"]
    value = truth.notes(pod).get(key)
    said: list[str] = []
    if "absent" in item and value is not None:
        said.append(want("absent", value))
    if "equals" in item and value != item["equals"]:
        said.append(want(show(item["equals"]), show(value)))
    if "matches" in item and (value is None or re.search(item["matches"], value) is None):
        said.append(want(f"a match of {item['matches']}", show(value)))
    return [f"{label}: {text}" for text in said]


def _bound_count(item: dict[str, Any], facts: Facts) -> list[str]:
    body = item["boundCount"]
    bound = [name for name in body["of"] if truth.node_of(facts.truth.pod(name))]
    count = len(bound)
    wrong = [
        f"{word} {body[word]}"
        for word, holds in (
            ("equals", count == body.get("equals")),
            ("min", count >= body.get("min", 0)),
            ("max", count <= body.get("max", count)),
        )
        if word in body and not holds
    ]
    return [f"boundCount: {want(' and '.join(wrong), f'{count} ({chr(44).join(bound)})')}"] if wrong else []


def _same_gpu(item: dict[str, Any], facts: Facts) -> list[str]:
    missing, sets = bound_with_devices(item["sameGpu"], facts)
    if missing:
        return [f"sameGpu: {missing}"]
    if len({tuple(cards) for cards in sets.values()}) > 1:
        return [f"sameGpu: {want('one set of cards', _sets(sets))}"]
    return []


def _disjoint(item: dict[str, Any], facts: Facts) -> list[str]:
    missing, sets = bound_with_devices(item["disjointGpus"], facts)
    if missing:
        return [f"disjointGpus: {missing}"]
    every = [card for cards in sets.values() for card in cards]
    if len(set(every)) < len(every):
        return [f"disjointGpus: {want('no card in common', _sets(sets))}"]
    return []


def _sets(sets: dict[str, list[str]]) -> str:
    return "; ".join(f"{name} {', '.join(cards)}" for name, cards in sets.items())


def _group(item: dict[str, Any], facts: Facts) -> list[str]:
    name = item["podgroup"]
    group = facts.truth.group(name)
    if group is None:
        return [f"podgroup {name}: want it there, found none"]
    found: list[str] = []
    phase = (group.get("status") or {}).get("phase") or "Pending"
    if "podgroupPhase" in item and phase not in item["podgroupPhase"]:
        found.append(f"podgroup {name} phase: {want(' or '.join(item['podgroupPhase']), phase)}")
    return found + _reason(item, f"podgroup {name}", lambda: reasons.of_group(name, facts.truth))


def _reason(item: dict[str, Any], label: str, text: Callable[[], str]) -> list[str]:
    found = [contains(text(), item[key]) for key in ("reasonContains", "reasonAnyOf") if key in item]
    return [f"{label} reason: {said}" for said in found if said is not None]


def _queue(item: dict[str, Any], facts: Facts) -> list[str]:
    name = item["queue"]
    queue = facts.truth.store.get(QUEUE, "", name)
    if queue is None:
        return [f"queue {name}: want it there, found none"]
    allocated = (queue.get("status") or {}).get("allocated") or {}
    found: list[str] = []
    for resource, amount in item.get("allocated", {}).items():
        there = allocated.get(resource, 0)
        if quantity.parse(there) != quantity.parse(amount):
            found.append(f"queue {name} allocated {resource}: {want(show(amount), show(there))}")
    return found


def _device(item: dict[str, Any], facts: Facts) -> list[str]:
    uuid = item["device"]
    shares = memory = cores = 0
    for view in facts.model.nodes.values():
        held = view.devices.held(uuid)
        shares, memory, cores = shares + held[0], memory + held[1], cores + held[2]
    there = {"usedMem": memory, "usedCores": cores, "usedSlots": shares}
    return [
        f"device {uuid} {key}: {want(str(item[key]), str(value))}"
        for key, value in there.items()
        if key in item and item[key] != value
    ]


def _config(item: dict[str, Any], facts: Facts) -> list[str]:
    which, model = item["config"], facts.model
    report = model.config_report
    errors, warnings = (report.errors, report.warnings) if which == "scheduler" else ((), model.device_warnings)
    accepted = not errors if which == "scheduler" else not any("is no readable YAML" in text for text in warnings)
    there = {"accepted": accepted, "warns": bool(warnings)}
    text = "\n".join((*errors, *warnings))
    found = [
        f"config {which} {key}: {want(show(item[key]), show(value))}{f' ({text})' if text else ''}"
        for key, value in there.items()
        if key in item and item[key] != value
    ]
    return found + _reason(item, f"config {which}", lambda: text)


def _object(item: dict[str, Any], facts: Facts) -> list[str]:
    name = item["object"]
    there = facts.truth.find(name)
    refusal = facts.refusals.get(name)
    if not facts.known(name) and there is None:
        return [f"object {name}: no document holds it and no controller made it"]
    found: list[str] = []
    if "exists" in item and item["exists"] != (there is not None):
        found.append(f"object {name} exists: {want(show(item['exists']), show(there is not None))}")
    if "contains" in item:
        said = "the object is not there" if there is None else differs(there, item["contains"])
        found += [f"object {name} contains: {said}"] if said else []
    if "refused" in item and item["refused"] != (refusal is not None):
        found.append(f"object {name} refused: {want(show(item['refused']), show(refusal is not None))}")
    return found + _reason(item, f"object {name}", lambda: refusal or "")


def _objects(item: dict[str, Any], facts: Facts) -> list[str]:
    body = item["objects"]
    count = truth.known_to_service(facts.model, KIND_BY_WORD[body["kind"]])
    return [] if count == body["equals"] else [f"objects {body['kind']}: {want(str(body['equals']), str(count))}"]


def _replay(item: dict[str, Any], facts: Facts) -> list[str]:
    outcome = facts.replay
    if outcome is None:
        return ["replay: there was no replay step before"]
    there = {
        "decisionsEqual": outcome.decisions_equal,
        "stateEqual": outcome.state_equal,
        "commandsSent": outcome.commands_sent,
    }
    return [
        f"replay {key}: {want(show(item['replay'][key]), show(value))}"
        for key, value in there.items()
        if key in item["replay"] and item["replay"][key] != value
    ]


def _any_of(item: dict[str, Any], facts: Facts) -> list[str]:
    said: list[str] = []
    for branch in item["anyOf"]:
        wrong = [text for inner in branch for text in failures(inner, facts)]
        if not wrong:
            return []
        said.append(" and ".join(wrong))
    return [f"anyOf: {'; or '.join(said)}"]


def _invariants(item: dict[str, Any], facts: Facts) -> list[str]:
    return [f"invariant {name}: {breach}" for name in item["invariants"] for breach in facts.breaches.get(name, ())]


_SUBJECTS: dict[str, Callable[[dict[str, Any], Facts], list[str]]] = {
    "pod": _pod, "annotation": _annotation, "boundCount": _bound_count, "sameGpu": _same_gpu,
    "disjointGpus": _disjoint, "podgroup": _group, "queue": _queue, "device": _device, "config": _config,
    "object": _object, "objects": _objects, "replay": _replay, "anyOf": _any_of, "invariants": _invariants,
}  # fmt: skip
