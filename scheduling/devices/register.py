"""What a node registers: its cards (devices/N-1 to N-11) and its legacy cards (devices/G-1).

Reading never fails. ``is_vgpu_node`` is the whole test of N-8; ``cards`` are there whenever the text can be read, since
shares on them count while the node is not ready for new pods (N-23).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from events import names
from scheduling import quantity
from scheduling.devices.environment import DeviceEnv
from scheduling.objects import Node

HAMI_CORE, MIG = "hami-core", "mig"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INT32 = 2**31 - 1  # what an allocation record can hold
_LEGACY_CARDS_MAX = 4096  # no machine has more; keeps a nonsense number from filling the memory
_FOREIGN_GPU = "nvidia.com/gpu"
_SERVED = "GPU"  # what the node agent looks for in its work list


@dataclass(frozen=True, slots=True)
class CardSpec:
    """One registered card. ``memory`` in units, ``shares`` is the most it takes; ``sound`` if every value is usable."""

    uuid: str
    index: int
    type: str
    mode: str
    memory: int
    shares: int
    healthy: bool
    sound: bool


@dataclass(frozen=True, slots=True)
class Legacy:
    """The cards of legacy sharing: indices of the healthy ones and the memory of each (G-1)."""

    indices: tuple[int, ...] = ()
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Registration:
    """Everything the books take from a node object."""

    cards: tuple[CardSpec, ...] = ()
    is_vgpu_node: bool = False
    legacy: Legacy = Legacy()
    warnings: tuple[str, ...] = ()


def read(node: Node | None, env: DeviceEnv) -> Registration:
    """Return what a node registers; nothing for a node that does not exist."""
    if node is None:
        return Registration()
    cards, warnings = read_cards(node.annotations.get(names.NODE_REGISTER, ""))
    allocatable = node.allocatable or {}
    offered = (env.number_name, env.memory_name, env.cores_name)
    vgpu = bool(cards) and all(_present(allocatable, name) for name in offered)
    if vgpu and _FOREIGN_GPU not in offered and _present(allocatable, _FOREIGN_GPU):
        warnings += (
            f"node {node.name} offers {_FOREIGN_GPU} besides {env.number_name}: two device agents on one node",
        )
    legacy, legacy_warnings = read_legacy(node)
    return Registration(cards, vgpu, legacy, warnings + legacy_warnings)


def _present(resources: Mapping[str, Any], name: str) -> bool:
    return bool(quantity.parse(resources.get(name)))


@lru_cache(maxsize=4096)
def read_cards(text: str) -> tuple[tuple[CardSpec, ...], tuple[str, ...]]:
    """Read the registration text; no cards if the node is not a vGPU node by it (N-3, N-4)."""
    if ":" not in text:
        return (), ()
    cards: dict[str, CardSpec] = {}
    warnings: list[str] = []
    for index, part in enumerate(text.split(":")):
        if "," not in part:
            continue
        fields = part.split(",")
        if len(fields) < 6:
            return (), (f"wrong Node GPU info: {part}",)
        if fields[0] in cards:
            warnings.append(f"card {fields[0]} is registered twice; only the first entry counts")
            continue
        card, faults = _card(index, fields)
        cards[card.uuid] = card
        warnings.extend(f"card {card.uuid or index}: {fault}; it takes no pods" for fault in faults)
        if card.sound and _SERVED not in card.uuid:
            warnings.append(
                f"card {card.uuid}: the node agent knows its work by {_SERVED} in the UUID, which this one lacks"
            )
    return tuple(cards.values()), tuple(warnings)


def _card(index: int, fields: list[str]) -> tuple[CardSpec, list[str]]:
    uuid, shares_text, memory_text, model, health, mode = fields[:6]
    faults: list[str] = []
    if not uuid or "[" in uuid or ";" in uuid:  # no allocation record could name it (A-4c, A-5)
        faults.append(f'unusable UUID "{uuid}"')
    shares, memory = _count(shares_text), _count(memory_text)
    if shares is None:
        faults.append(f'unreadable share count "{shares_text}"')
    if memory is None:
        faults.append(f'unreadable memory "{memory_text}"')
    if health not in _TRUE and health not in _FALSE:
        faults.append(f'unreadable health "{health}"')
    card = CardSpec(
        uuid=uuid,
        index=index,
        type=model,
        mode=MIG if mode == MIG else HAMI_CORE,
        memory=memory or 0,
        shares=shares or 0,
        healthy=health in _TRUE,
        sound=not faults,
    )
    return card, faults


def _count(text: str) -> int | None:
    """Return a count that is not negative (N-5), None if it is unreadable."""
    digits = text[1:] if text.startswith("+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18 or int(digits) > _INT32:
        return None
    return int(digits)


def read_legacy(node: Node) -> tuple[Legacy, tuple[str, ...]]:
    """Read the cards of legacy sharing from the node's capacity (G-1)."""
    if names.GPU_MEMORY not in node.capacity or names.GPU_NUMBER not in node.capacity:
        return Legacy(), ()
    number = quantity.whole(node.capacity[names.GPU_NUMBER])
    memory = quantity.whole(node.capacity[names.GPU_MEMORY])
    if not number or not 0 < number <= _LEGACY_CARDS_MAX:
        return Legacy(), (f"invalid {names.GPU_NUMBER}={node.capacity[names.GPU_NUMBER]}",)
    unhealthy, warnings = _unhealthy(node.annotations.get(names.UNHEALTHY_IDS, ""))
    indices = tuple(index for index in range(number) if index not in unhealthy)
    return Legacy(indices, max(memory or 0, 0) // number), warnings


def _unhealthy(text: str) -> tuple[frozenset[int], tuple[str, ...]]:
    found: set[int] = set()
    warnings: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        number = index(item)
        if number is None:
            warnings.append(f"Failed to parse unhealthy gpu id {item} due to invalid syntax")
        else:
            found.add(number)
    return frozenset(found), tuple(warnings)


def index(text: str) -> int | None:
    """Return a card index as written in a list, None if it is no integer."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        return None
    return int(text)
