"""Where a process of the simulation begins: mostly at a snapshot, as in production, sometimes at the log's front."""

from __future__ import annotations

from services.simulator.chaos.driving import at_once
from services.simulator.chaos.loglink import LogLink
from services.simulator.chaos.plan import Step, draw
from services.simulator.chaos.playing import Player
from services.simulator.chaos.world import World


def worked() -> World:
    """A world that has bound some pods, and whose onlooker has taken snapshots on the way."""
    steps = [step for number in range(9) for step in (Step("pod", number), *[Step("run all", 1)] * 4)]
    player = Player(draw(2, 1).only(steps))
    for step in steps:
        player._step(step)
        player.judge.look()
    player.world.inspect()
    return player.world


def test_most_processes_begin_at_a_snapshot_and_come_to_the_same_state() -> None:
    world = worked()
    world.network.heal()
    link = LogLink(world.log, world.network, "scheduler9", world.rng)
    readers = [world._reader(link) for _ in range(40)]
    places = [reader.position for reader in readers]
    assert world.snapshot is not None
    assert set(places) == {0, world.snapshot[0]}
    assert places.count(0) < len(places) / 2
    for reader in (readers[places.index(0)], readers[places.index(world.snapshot[0])]):
        at_once(reader.catch_up())
        assert (reader.chain, reader.state.digest()) == (world.inspector.chain, world.inspector.state.digest())


def test_a_watcher_remembers_the_same_from_both() -> None:
    world = worked()
    world.network.heal()
    link = LogLink(world.log, world.network, "watcher9", world.rng)
    readers = [at_once(world._remembering(link)) for _ in range(40)]
    places = [reader.position for reader in readers]
    memories = []
    for reader in (readers[places.index(0)], readers[places.index(max(places))]):
        at_once(reader.catch_up())
        memories.append({kind: held for kind, held in reader.state._objects.items() if held})
    assert max(places) > 0
    assert memories[0] == memories[1]


def test_a_snapshot_that_cannot_be_used_is_a_finding() -> None:
    world = worked()
    assert world.snapshot is not None
    position, chain, data = world.snapshot
    world.snapshot = position, chain, data[:-9]
    link = LogLink(world.log, world.network, "scheduler9", world.rng)
    assert {world._reader(link).position for _ in range(20)} == {0}
    assert world.crashes[0].startswith("6: a snapshot of the state cannot be used")
