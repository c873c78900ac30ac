"""The binpack plugin: the fuller a node would be, the better (scheduling/AL-24), in thousandths, exactly."""

from __future__ import annotations

from scheduling.config import arguments
from scheduling.config.model import PluginOption
from scheduling.nodes.nodeorder import THOUSAND
from scheduling.nodes.resource_scores import SCORE_MAX
from scheduling.nodes.view import NodeView
from scheduling.resources import CPU, MEMORY, Vector


class Binpack:
    """The binpack plugin with the weights of its configuration entry.

    ``weight`` 0 switches it off. A resource without a weight does not matter.
    """

    def __init__(self, option: PluginOption | None = None) -> None:
        found = option.arguments if option else {}
        self.weight = arguments.integer(found, "binpack.weight", 1)
        listed = [name.strip() for name in arguments.string(found, "binpack.resources", "").split(",")]
        keys = {CPU: "binpack.cpu", MEMORY: "binpack.memory"}
        keys |= {name: f"binpack.resources.{name}" for name in listed if name}
        weights = {name: arguments.integer(found, key, 1) for name, key in keys.items()}
        self.resources = {name: weight if weight >= 0 else 1 for name, weight in weights.items()}

    def score(self, request: Vector, view: NodeView) -> int:
        """Return the score of a node for a request; 0 if a resource that counts would be over-full."""
        if not self.weight:
            return 0
        above, below, weights = 0, 1, 0
        for name, weight in self.resources.items():
            asked = request.get(name, 0)
            if asked <= 0:
                continue
            weights += weight
            room, after = view.room.get(name, 0), view.used.get(name, 0) + asked
            if not weight or not room:
                continue
            if after > room:
                return 0
            above, below = above * room + weight * after * below, below * room
        return above * THOUSAND * SCORE_MAX * self.weight // (below * weights) if weights else 0
