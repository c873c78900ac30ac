"""What an assertion can say of one pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from events import names
from events.kinds import NODE
from scheduling.devices.record import Share
from services.simulator import reasons, truth
from services.simulator.facts import Facts
from services.simulator.wording import contains, show, want

#: Judges one key: (the pod's name, the key's value, the facts) -> what is wrong, None if it holds.
Judge: TypeAlias = Callable[[str, Any, Facts], str | None]


def describe(name: str, facts: Facts) -> str:
    """Return in a few words how a pod is: where it is bound, why it waits, or that it is absent."""
    pod = facts.truth.pod(name)
    if pod is None:
        refusal = facts.refusals.get(f"Pod/{name}")
        return f"absent (refused: {show(refusal)})" if refusal else "absent"
    node = truth.node_of(pod)
    if node:
        return f"bound ({', '.join([f'node {node}', *truth.cards(pod)])})"
    reason = reasons.of_pod(name, facts.truth, facts.model, facts.refusals)
    return f"pending ({show(reason)})" if reason else "pending"


def bound_with_devices(pods: list[str], facts: Facts) -> tuple[str, dict[str, list[str]]]:
    """Return what is wrong if one of the pods is not bound with devices, and the cards of each."""
    sets = {name: truth.cards(facts.truth.pod(name)) for name in pods}
    missing = [f"{name} is {describe(name, facts)}" for name, cards in sets.items() if not cards]
    return (want("all bound with devices", "; ".join(missing)) if missing else "", sets)


def _phase(name: str, phase: str, facts: Facts) -> str | None:
    pod = facts.truth.pod(name)
    refused = pod is None and facts.refused_pod(name)
    holds = {
        "bound": bool(truth.node_of(pod)),
        "pending": pod is not None and not truth.node_of(pod),
        "notBound": (pod is not None and not truth.node_of(pod)) or refused,
        "absent": pod is None,
    }[phase]
    return None if holds else want(phase, describe(name, facts))


def _needs_pod(judge: Judge) -> Judge:
    """An assertion on a pod that is not there fails."""

    def judged(name: str, value: Any, facts: Facts) -> str | None:
        if facts.truth.pod(name) is None:
            return want(show(value), describe(name, facts))
        return judge(name, value, facts)

    return judged


def _needs_binding(judge: Judge) -> Judge:
    def judged(name: str, value: Any, facts: Facts) -> str | None:
        if not truth.node_of(facts.truth.pod(name)):
            return want(show(value), describe(name, facts))
        return judge(name, value, facts)

    return judged


@_needs_pod
def _node(name: str, nodes: list[str], facts: Facts) -> str | None:
    return None if truth.node_of(facts.truth.pod(name)) in nodes else want(" or ".join(nodes), describe(name, facts))


@_needs_pod
def _not_node(name: str, nodes: list[str], facts: Facts) -> str | None:
    node = truth.node_of(facts.truth.pod(name))
    return want(f"none of {', '.join(nodes)}", node) if node in nodes else None


@_needs_binding
def _gpu(name: str, wanted: list[str], facts: Facts) -> str | None:
    cards = truth.cards(facts.truth.pod(name))
    return None if cards == sorted(set(wanted)) else want(", ".join(wanted), ", ".join(cards) or "no card")


@_needs_binding
def _gpu_in(name: str, allowed: list[str], facts: Facts) -> str | None:
    cards = truth.cards(facts.truth.pod(name))
    if cards and set(cards) <= set(allowed):
        return None
    return want(f"cards of {', '.join(allowed)}", ", ".join(cards) or "no card")


@_needs_binding
def _not_gpu(name: str, denied: list[str], facts: Facts) -> str | None:
    cards = truth.cards(facts.truth.pod(name))
    if cards and not set(cards) & set(denied):
        return None
    return want(f"cards other than {', '.join(denied)}", ", ".join(cards) or "no card")


@_needs_pod
def _gpu_count(name: str, count: int, facts: Facts) -> str | None:
    cards = truth.cards(facts.truth.pod(name))
    return None if len(cards) == count else want(str(count), f"{len(cards)} ({', '.join(cards)})")


@_needs_binding
def _gpu_index(name: str, indices: list[int], facts: Facts) -> str | None:
    pod = facts.truth.pod(name)
    text = truth.notes(pod).get(names.GPU_INDEX) if pod else None
    found = sorted(text.split(",")) if text else []
    return None if found == sorted(map(str, set(indices))) else want(show(indices), show(text))


@_needs_binding
def _containers(name: str, wanted: list[list[dict[str, Any]]], facts: Facts) -> str | None:
    shares = truth.shares(facts.truth.pod(name))
    found = [[share for share in shares if share.container == place] for place in range(len(wanted))]
    beyond = any(share.container >= len(wanted) for share in shares)
    if not beyond and all(map(_same_shares, found, wanted)):
        return None
    places = max((share.container + 1 for share in shares), default=0)
    there = [
        [(share.uuid + share.suffix, share.memory) for share in shares if share.container == n] for n in range(places)
    ]
    return want(show(wanted), show(there))


def _same_shares(found: list[Share], wanted: list[dict[str, Any]]) -> bool:
    """Compare one container's shares in any order; a wanted uuid is a card or a slice of it."""
    rest = list(found)
    for item in wanted:
        match = next((s for s in rest if item["uuid"] in (s.uuid, s.uuid + s.suffix) and s.memory == item["mem"]), None)
        if match is None:
            return False
        rest.remove(match)
    return not rest


@_needs_binding
def _slice(name: str, wanted: dict[str, Any], facts: Facts) -> str | None:
    pod = facts.truth.pod(name)
    shares = truth.shares(pod)
    if not shares:
        return want(show(wanted), "no share")
    card = truth.card_specs(facts.truth.store.get(NODE, "", truth.node_of(pod))).get(shares[0].uuid)
    found = truth.slice_of(shares[0], card, facts.model.env)
    if found is None:
        return want(show(wanted), f"{shares[0].uuid}{shares[0].suffix}, no slice of a registered card")
    there = {"uuid": shares[0].uuid, "group": found.group, "memory": found.memory}
    return None if all(there[key] == value for key, value in wanted.items()) else want(show(wanted), show(there))


@_needs_pod
def _distinct_slices(name: str, count: int, facts: Facts) -> str | None:
    found = {share.uuid + share.suffix for share in truth.shares(facts.truth.pod(name)) if share.suffix}
    return None if len(found) == count else want(str(count), f"{len(found)} ({', '.join(sorted(found))})")


def _reason(name: str, wanted: str | list[str], facts: Facts) -> str | None:
    text = reasons.of_pod(name, facts.truth, facts.model, facts.refusals)
    if text is None:
        return want(show(wanted), describe(name, facts))
    return contains(text, wanted)


def _bindings(name: str, count: int, facts: Facts) -> str | None:
    pod = facts.truth.pod(name)
    if pod is None:
        return want(str(count), describe(name, facts))
    found = facts.truth.bindings(pod["metadata"]["uid"])
    return None if found == count else want(str(count), str(found))


POD_KEYS: dict[str, Judge] = {
    "phase": _phase, "node": _node, "notNode": _not_node, "gpu": _gpu, "gpuIn": _gpu_in, "notGpu": _not_gpu,
    "gpuCount": _gpu_count, "gpuIndex": _gpu_index, "containers": _containers, "slice": _slice,
    "distinctSlices": _distinct_slices, "reasonContains": _reason, "reasonAnyOf": _reason, "bindings": _bindings,
}  # fmt: skip
