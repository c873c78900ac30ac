"""Admission of queues: defaults, limits that must fit each other and the hierarchy (scheduling/Q-2, Q-3, Q-5)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from events.canonical import Json
from events.kinds import QUEUE
from events.reading import mapping, name_of, spec, status, text, whole
from scheduling import quantity
from scheduling.admission.lookup import (
    DEFAULT,
    ROOT,
    Lister,
    children_of,
    denied,
    missing,
    parent_of,
    queue_named,
    section,
    state_of,
)
from scheduling.resources import ordered

_STATES = ("Open", "Closed")
_DEPTH_MAX = 5
_WEIGHT_MAX = 65535
_UNLIMITED_AT_ZERO = ("cpu", "memory")  # in a capability


def admit(verb: str, new: Json | None, old: Json | None, lister: Lister, *, check_allocated_pods: bool = False) -> None:
    """Complete and judge a queue. Raises Denied."""
    if verb == "delete":
        if old is not None:
            _may_go(old, lister, check_allocated_pods)
        return
    if new is None:
        return
    if verb == "status":
        _opening(new, old, lister)
        return
    _complete(new)
    _state(new, old)
    _weight(new)
    _resources(new)
    _parent(new, old, lister)
    _against_relatives(new, lister)


def _complete(queue: Json) -> None:
    wanted = section(queue, "spec")
    if wanted.get("weight") is None:
        wanted["weight"] = 1
    if wanted.get("reclaimable") is None:
        wanted["reclaimable"] = name_of(queue) != ROOT
    if name_of(queue) != ROOT and not wanted.get("parent"):
        wanted["parent"] = ROOT


def _state(new: Json, old: Json | None) -> None:
    state = status(new).get("state")
    if state in (None, "", *_STATES) or (old is not None and status(old).get("state") == state):
        return
    path = "requestBody.status.state"
    shown = " ".join(_STATES)
    raise denied(QUEUE, f'{path}: Invalid value: "{state}": queue state must be in [{shown}]')


def _weight(queue: Json) -> None:
    weight = spec(queue).get("weight")
    number = whole(weight)
    if number is None or not 1 <= number <= _WEIGHT_MAX:
        path = "requestBody.spec.weight"
        raise denied(QUEUE, f"{path}: Invalid value: {weight}: queue weight must be a positive integer up to 65535")


def _amounts(value: Any, field: str) -> dict[str, Fraction]:
    found = {}
    for name, written in mapping(value).items():
        amount = quantity.parse(written)
        if amount is None or amount < 0:
            raise denied(
                QUEUE, f"requestBody.spec.{field}[{name}]: Invalid value: {written!r}: must be a quantity >= 0"
            )
        found[name] = amount
    return found


def _guarantee(queue: Json | None) -> dict[str, Fraction]:
    return _amounts(mapping(spec(queue).get("guarantee")).get("resource"), "guarantee.resource")


def _deserved(queue: Json | None) -> dict[str, Fraction]:
    return _amounts(spec(queue).get("deserved"), "deserved")


def _capability(queue: Json | None) -> dict[str, Fraction]:
    """What a capability limits: zero cpu or memory is no limit."""
    found = _amounts(spec(queue).get("capability"), "capability")
    return {name: amount for name, amount in found.items() if amount or name not in _UNLIMITED_AT_ZERO}


def _shown(queue: Json, field: str, name: str) -> str:
    part = mapping(spec(queue).get("guarantee")).get("resource") if field == "guarantee" else spec(queue).get(field)
    return quantity.canonical(mapping(part).get(name, 0))


def _resources(queue: Json) -> None:
    """guarantee ≤ deserved ≤ capability, resource by resource (Q-5)."""
    guarantee, deserved, capability = _guarantee(queue), _deserved(queue), _capability(queue)
    for name in ordered(guarantee):
        if deserved.get(name, Fraction(0)) < guarantee[name]:
            raise _mismatch(queue, name, ">=", "guarantee")
    for name in ordered(deserved):
        if name in capability and deserved[name] > capability[name]:
            raise _mismatch(queue, name, "<=", "capability")


def _mismatch(queue: Json, name: str, relation: str, other: str) -> Exception:
    left, right = _shown(queue, "deserved", name), _shown(queue, other, name)
    return denied(QUEUE, f"deserved[{name}]={left} must be {relation} {other}[{name}]={right}")


def _parent(new: Json, old: Json | None, lister: Lister) -> None:
    name, parent = name_of(new), parent_of(new)
    if name == ROOT:
        if text(spec(new).get("parent")):
            raise denied(QUEUE, "root queue cannot have a parent")
        return
    if parent == name:
        raise denied(QUEUE, f"queue {name} cannot use itself as parent")
    if parent == ROOT and queue_named(lister, ROOT) is None:
        return  # it is made at start-up, with or without children
    found = queue_named(lister, parent)
    if found is None:
        raise denied(QUEUE, f"failed to get parent queue of queue {name}: {missing(QUEUE, parent)}")
    _depth(name, found, lister)
    if old is None or parent_of(old) != parent:
        _first_child(name, found, lister)


def _depth(name: str, parent: Json, lister: Lister) -> None:
    """A queue may stand at most five levels below root, and not below itself."""
    depth, above = 1, parent
    while name_of(above) != ROOT:
        depth += 1
        if depth > _DEPTH_MAX:
            raise denied(
                QUEUE, f"queue {name} cannot be created, the depth of the queue hierarchy exceeds {_DEPTH_MAX}"
            )
        if parent_of(above) == name:
            raise denied(QUEUE, f"queue {name} cannot be below itself: {name_of(above)} is its child")
        next_above = queue_named(lister, parent_of(above))
        if next_above is None:
            return
        above = next_above


def _first_child(name: str, parent: Json, lister: Lister) -> None:
    """A queue that holds pods does not become a parent (Q-5)."""
    if name_of(parent) == ROOT or children_of(lister, name_of(parent)):
        return
    count = _allocated_pods(parent)
    if count:
        text_ = f"queue {name_of(parent)} cannot be the parent queue of queue {name} because it has allocated Pods"
        raise denied(QUEUE, f"{text_}: {count}")


def _allocated_pods(queue: Json) -> int:
    return quantity.whole(mapping(status(queue).get("allocated")).get("pods")) or 0


def _against_relatives(queue: Json, lister: Lister) -> None:
    """Capability within the nearest ancestor's that names the resource; sums of children within the parent's."""
    name = name_of(queue)
    if name != ROOT:
        _within_ancestors(queue, lister)
        parent = queue_named(lister, parent_of(queue))
        siblings = [item for item in children_of(lister, parent_of(queue)) if name_of(item) != name]
        if parent is not None:
            _sums(parent, [*siblings, queue])
    children = children_of(lister, name)
    _sums(queue, children)
    for child in children:
        _compare(child, _capability(child), queue, _capability(queue))


def _within_ancestors(queue: Json, lister: Lister) -> None:
    wanted, seen = _capability(queue), {name_of(queue)}
    above = queue_named(lister, parent_of(queue))
    while above is not None and wanted and name_of(above) not in seen:
        seen.add(name_of(above))
        limits = _capability(above)
        _compare(queue, wanted, above, limits)
        wanted = {name: amount for name, amount in wanted.items() if name not in limits}
        above = queue_named(lister, parent_of(above)) if name_of(above) != ROOT else None


def _compare(queue: Json, wanted: Mapping[str, Fraction], above: Json, limits: Mapping[str, Fraction]) -> None:
    for name in ordered(wanted):
        if name in limits and wanted[name] > limits[name]:
            mine, theirs = _shown(queue, "capability", name), _shown(above, "capability", name)
            raise denied(
                QUEUE,
                f"queue {name_of(queue)} capability[{name}]={mine} must be <= "
                f"capability[{name}]={theirs} of its ancestor queue {name_of(above)}",
            )


def _sums(parent: Json, children: list[Json]) -> None:
    for field, read in (("guarantee", _guarantee), ("deserved", _deserved)):
        limits = read(parent)
        total: dict[str, Fraction] = {}
        for child in children:
            for name, amount in read(child).items():
                total[name] = total.get(name, Fraction(0)) + amount
        for name in ordered(limits):
            if total.get(name, Fraction(0)) > limits[name]:
                shown = _shown(parent, field, name)
                raise denied(
                    QUEUE,
                    f"the sum of the children's {field}[{name}] must be <= "
                    f"{field}[{name}]={shown} of queue {name_of(parent)}",
                )


def _may_go(queue: Json, lister: Lister, check_allocated_pods: bool) -> None:
    name = name_of(queue)
    if name in (ROOT, DEFAULT):
        raise denied(QUEUE, f"`{name}` queue can not be deleted")
    children = [name_of(child) for child in children_of(lister, name)]
    if children:
        shown = " ".join(children)
        raise denied(QUEUE, f"queue {name} cannot be deleted because it has {len(children)} child queues: [{shown}]")
    count = _allocated_pods(queue)
    if check_allocated_pods and count:
        raise denied(QUEUE, f"queue {name} cannot be deleted because it has allocated Pods: {count}")


def _opening(new: Json, old: Json | None, lister: Lister) -> None:
    """A child cannot be opened under a closed parent (Q-3)."""
    if name_of(new) == ROOT:
        if state_of(new) in ("Closed", "Closing"):
            raise denied(QUEUE, "root queue can not be closed")
        return
    if state_of(new) != "Open" or old is None or state_of(old) == "Open":
        return
    parent = queue_named(lister, parent_of(new))
    if parent is not None and name_of(parent) != ROOT and state_of(parent) in ("Closed", "Closing"):
        raise denied(
            QUEUE,
            f"queue {name_of(new)} cannot be opened: its parent queue {name_of(parent)} is {state_of(parent)}",
        )
