"""The values of the scheduler's device metrics as a function of the committed books (devices/M-1, M-2, M-4).

Only what is registered and live has a series, so series of gone pods, cards and nodes vanish by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from scheduling.devices.books import NodeDevices
from scheduling.devices.cards import Card


class Sample(NamedTuple):
    """One value of one gauge; labels in the order of the metric's definition."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: int | Fraction


def series(devices: Iterable[NodeDevices]) -> list[Sample]:
    """Return the samples of all nodes: by node name, then card, then pod."""
    samples: list[Sample] = []
    for node in sorted(devices, key=lambda item: item.name):
        for card in node.cards:
            samples.extend(_card(node.name, card))
            samples.extend(_pods(node.name, card))
    return samples


def _card(node: str, card: Card) -> list[Sample]:
    labels = (("devID", card.uuid), ("NodeName", node))
    return [
        Sample("volcano_vgpu_device_shared_number", labels, card.used_shares),
        Sample("volcano_vgpu_device_allocated_memory", labels, card.used_memory),
        Sample("volcano_vgpu_device_allocated_cores", labels, card.used_cores),
        Sample("volcano_vgpu_device_memory_limit", labels, card.memory),
        Sample("volcano_vgpu_utilization", labels, Fraction(card.used_cores, 100)),
        Sample("volcano_vgpu_memory_usage", labels, Fraction(card.used_memory, card.memory) if card.memory else 0),
    ]


def _pods(node: str, card: Card) -> list[Sample]:
    sums: dict[str, tuple[int, int]] = {}
    for holder in card.holders:
        memory, cores = sums.get(holder.key, (0, 0))
        sums[holder.key] = memory + card.booked(holder.share), cores + holder.share.cores
    samples: list[Sample] = []
    for key, (memory, cores) in sorted(sums.items()):
        namespace, _, name = key.rpartition("/")
        labels = (("devID", card.uuid), ("NodeName", node), ("podName", name), ("podNamespace", namespace))
        samples.append(Sample("volcano_vgpu_device_memory_allocation_for_a_certain_pod", labels, memory))
        samples.append(Sample("volcano_vgpu_device_core_allocation_for_a_certain_pod", labels, cores))
    return samples


def completed(devices: NodeDevices, uid: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return the labels of ``volcano_vgpu_tasks_completed`` that count one more when this pod ends Succeeded (M-4).

    Asked on the books before the pod is released: one for each registered card on which it holds a share.
    """
    cards = [card for card in devices.cards if any(holder.uid == uid for holder in card.holders)]
    return tuple((("devID", card.uuid), ("NodeName", devices.name)) for card in cards)
