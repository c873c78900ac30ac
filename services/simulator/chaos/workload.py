"""What users, administrators and machines do: pods come, end and come again, nodes and cards fail.

Everything goes through the API server's front door and meets admission; what it refuses is simply not there. Names come
from a small pool, so the same name often returns with another uid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from adapters.cluster.port import ApiError
from events.canonical import Json
from events.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, VOLCANO_JOB, Kind
from events.names import NODE_REGISTER
from services.cluster import defaults
from services.cluster.direct import DirectApi
from services.cluster.store import Store
from services.simulator.chaos import manifests
from services.simulator.chaos.driving import at_once
from services.simulator.chaos.plan import Setting

#: Live pods at once; more would only make every step slower.
PODS_MAX: Final = 24
_NAMES: Final = 9
_GROUPS: Final = 4


class Workload:
    """Plays the verbs of users and machines. ``played`` counts what was really done."""

    def __init__(self, store: Store, api: DirectApi, setting: Setting, seed: int) -> None:
        self._store, self._api, self._setting, self._seed = store, api, setting, seed
        self.played: Counter[str] = Counter()
        self._verbs: dict[str, Callable[[Random], str]] = {
            "pod": self._pod, "gang": self._gang, "job": self._job, "delete pod": self._delete_pod,
            "finish pod": self._finish, "pod again": self._again, "touch pod": self._touch_pod,
            "delete gang": self._delete_gang, "touch gang": self._touch_gang, "cordon": self._cordon,
            "node gone": self._node_gone, "node back": self._node_back, "card lost": self._card_lost,
            "card back": self._card_back, "other card form": self._card_form, "touch node": self._touch_node,
            "touch queue": self._touch_queue,
        }  # fmt: skip

    def begin(self) -> None:
        """Bring about what is there from the start."""
        rng, setting = Random(self._seed), self._setting
        for name in (manifests.NAMESPACE, "volcano-system", "kube-system", "default"):
            self._put(NAMESPACE, {"metadata": {"name": name}})
        for item in manifests.configuration(setting):
            self._put(CONFIG_MAP, item)
        for name in manifests.PRIORITIES:
            self._put(PRIORITY_CLASS, manifests.priority(name))
        for name in ("root", "default"):
            body: Json = {"metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": name == "default"}}
            self._put(QUEUE, {**body, "status": {"state": "Open"}})
        for name in ("small", "wide"):
            self._put(QUEUE, {**manifests.queue(name, setting, rng), "status": {"state": "Open"}})
        for name in self._node_names():
            self._put(NODE, self._node(name))

    def _put(self, kind: Kind, item: Json) -> None:
        if self._store.get(kind, item["metadata"].get("namespace") or "", item["metadata"]["name"]) is None:
            whole = {"apiVersion": kind.api_version, "kind": kind.name, **item}
            defaults.apply(kind, whole)
            self._store.put(kind, whole)

    def _node_names(self) -> list[str]:
        return [f"n{index}" for index in range(self._setting.nodes)]

    def _node(self, name: str) -> Json:
        """Return a node as it is when it is whole: the same each time."""
        return manifests.node(name, self._setting, Random(f"{self._seed}/{name}"))

    def knows(self, verb: str) -> bool:
        return verb in self._verbs

    def play(self, verb: str, rng: Random) -> None:
        """Play one verb; refusals are answers too."""
        try:
            done = self._verbs[verb](rng)
        except ApiError:
            self.played["refused"] += 1
            return
        if done:
            self.played[done] += 1

    # --- pods ---

    def _pods(self) -> list[Json]:
        return self._store.items(POD, manifests.NAMESPACE)

    def _some_pod(self, rng: Random, wanted: Callable[[Json], bool] = lambda _: True) -> Json | None:
        found = [item for item in self._pods() if wanted(item)]
        return rng.choice(found) if found else None

    def _create(self, kind: Kind, item: Json) -> None:
        at_once(self._api.create(kind, item))

    def _patch(self, kind: Kind, item: Json, merge: Json, subresource: str = "") -> None:
        meta = item["metadata"]
        at_once(self._api.patch(kind, meta.get("namespace") or "", meta["name"], merge, subresource))

    def _end(self, item: Json, rng: Random) -> None:
        """Delete a pod: at once, or as its node agent sees it first."""
        meta = item["metadata"]
        grace = 0 if rng.random() < 0.4 else 30
        at_once(self._api.delete(POD, meta["namespace"], meta["name"], grace_s=grace))

    def _room(self) -> bool:
        return len(self._pods()) < PODS_MAX

    def _pod(self, rng: Random) -> str:
        name = f"p{rng.randrange(_NAMES)}"
        if not self._room() or self._store.get(POD, manifests.NAMESPACE, name) is not None:
            return ""
        self._create(POD, manifests.pod(name, self._setting, rng))
        return "pod"

    def _delete_pod(self, rng: Random) -> str:
        item = self._some_pod(rng)
        if item is None:
            return ""
        self._end(item, rng)
        return "pod deleted"

    def _again(self, rng: Random) -> str:
        """The same name returns at once with another uid."""
        item = self._some_pod(rng, lambda pod: not pod["metadata"].get("ownerReferences"))
        if item is None:
            return ""
        meta = item["metadata"]
        group = (meta.get("annotations") or {}).get("scheduling.k8s.io/group-name", "")
        at_once(self._api.delete(POD, meta["namespace"], meta["name"], grace_s=0))
        group = "" if group.startswith("podgroup-") else group
        self._create(POD, manifests.pod(meta["name"], self._setting, rng, group))
        return "same name, new uid"

    def _finish(self, rng: Random) -> str:
        def running(pod: Json) -> bool:
            return bool(pod["spec"].get("nodeName")) and pod.get("status", {}).get("phase") in ("Running", "Pending")

        item = self._some_pod(rng, running)
        if item is None:
            return ""
        phase = rng.choice(("Succeeded", "Succeeded", "Failed"))
        self._patch(POD, item, {"status": {"phase": phase}}, "status")
        return "pod finished"

    def _touch_pod(self, rng: Random) -> str:
        """A label changes while the pod waits or runs: a decision under way may rest on what it was."""
        item = self._some_pod(rng)
        if item is None or (self._setting.exclusive and item["spec"].get("nodeName")):
            return ""
        self._patch(POD, item, {"metadata": {"labels": {"touched": str(rng.randrange(7))}}})
        return "pod touched"

    # --- gangs ---

    def _gang(self, rng: Random) -> str:
        name = f"g{rng.randrange(_GROUPS)}"
        members = rng.choice((2, 3, 4, 5, 6) if self._setting.eviction else (1, 2, 2, 3, 3, 4))
        if len(self._pods()) + members > PODS_MAX or any(
            item["metadata"]["name"].startswith(name) for item in self._pods()
        ):
            return ""
        if self._store.get(POD_GROUP, manifests.NAMESPACE, name) is None:
            self._create(POD_GROUP, manifests.group(name, members, self._setting, rng))
        pods = [manifests.pod(f"{name}-{index}", self._setting, rng, name) for index in range(members)]
        if rng.random() < 0.6:  # members are usually alike
            pods = [{**item, "spec": pods[0]["spec"]} for item in pods]
        for item in pods:
            self._create(POD, item)
        return "gang"

    def _delete_gang(self, rng: Random) -> str:
        groups = [item for item in self._store.items(POD_GROUP, manifests.NAMESPACE) if _plain(item)]
        if not groups:
            return ""
        name = rng.choice(groups)["metadata"]["name"]
        for item in self._pods():
            if item["metadata"]["name"].startswith(f"{name}-"):
                at_once(self._api.delete(POD, manifests.NAMESPACE, item["metadata"]["name"], grace_s=0))
        at_once(self._api.delete(POD_GROUP, manifests.NAMESPACE, name))
        return "gang deleted"

    def _touch_gang(self, rng: Random) -> str:
        groups = [item for item in self._store.items(POD_GROUP, manifests.NAMESPACE) if _plain(item)]
        if not groups:
            return ""
        self._patch(POD_GROUP, rng.choice(groups), {"spec": {"minMember": rng.choice((1, 2, 3))}})
        return "gang changed"

    def _job(self, rng: Random) -> str:
        name = f"j{rng.randrange(2)}"
        if not self._room() or self._store.get(VOLCANO_JOB, manifests.NAMESPACE, name) is not None:
            jobs = self._store.items(VOLCANO_JOB, manifests.NAMESPACE)
            if jobs:
                at_once(self._api.delete(VOLCANO_JOB, manifests.NAMESPACE, rng.choice(jobs)["metadata"]["name"]))
                return "job deleted"
            return ""
        self._create(VOLCANO_JOB, manifests.job(name, self._setting, rng))
        return "job"

    # --- machines and queues ---

    def _some_node(self, rng: Random) -> Json | None:
        nodes = self._store.items(NODE)
        return rng.choice(nodes) if nodes else None

    def _cordon(self, rng: Random) -> str:
        item = self._some_node(rng)
        if item is None:
            return ""
        self._patch(NODE, item, {"spec": {"unschedulable": rng.random() < 0.25}})
        return "node cordoned"

    def _node_gone(self, rng: Random) -> str:
        """The node object goes; its pods stay until somebody deletes them, some of them at once."""
        item = self._some_node(rng)
        if item is None:
            return ""
        name = item["metadata"]["name"]
        held = [pod for pod in self._pods() if pod["spec"].get("nodeName") == name]
        at_once(self._api.delete(NODE, "", name))
        for pod in held:
            if rng.random() < 0.7:
                at_once(self._api.delete(POD, manifests.NAMESPACE, pod["metadata"]["name"], grace_s=0))
        return "node deleted with pods" if held else "node deleted"

    def _node_back(self, rng: Random) -> str:
        for name in self._node_names():
            if self._store.get(NODE, "", name) is None:
                self._put(NODE, self._node(name))
                return "node came back"
        return ""

    def _cards(self, item: Json) -> list[str]:
        text = (item["metadata"].get("annotations") or {}).get(NODE_REGISTER, "")
        return [card for card in text.split(":") if card]

    def _register(self, item: Json, cards: list[str]) -> None:
        """Register these cards, and offer what they have."""
        text = "".join(f"{card}:" for card in cards)
        self._patch(NODE, item, {"metadata": {"annotations": {NODE_REGISTER: text}}})
        there = manifests.offered(cards)
        self._patch(NODE, item, {"status": {"allocatable": there, "capacity": there}}, "status")

    def _card_lost(self, rng: Random) -> str:
        item = self._some_node(rng)
        cards = self._cards(item) if item else []
        if item is None or not cards:
            return ""
        del cards[rng.randrange(len(cards))]
        self._register(item, cards)
        return "card lost"

    def _card_back(self, rng: Random) -> str:
        item = self._some_node(rng)
        if item is None or self._setting.legacy:
            return ""
        whole = self._cards(self._node(item["metadata"]["name"]))
        if whole == self._cards(item):
            return ""
        self._register(item, whole)
        return "card came back"

    def _card_form(self, rng: Random) -> str:
        """A registration shrinks, or a card falls ill."""
        item = self._some_node(rng)
        cards = self._cards(item) if item else []
        if item is None or not cards:
            return ""
        place = rng.randrange(len(cards))
        parts = cards[place].split(",")
        choice = rng.randrange(3) if parts[5] != "mig" else 1 + rng.randrange(2)  # slices do not shrink
        if choice == 0:
            parts[2] = str(max(1, int(parts[2]) - rng.choice((1, 1000, 3000))))
        elif choice == 1:
            parts[1] = str(max(1, int(parts[1]) - rng.choice((1, 2, 5))))
        else:
            parts[4] = "false" if parts[4] == "true" else "true"
        self._register(item, [*cards[:place], ",".join(parts), *cards[place + 1 :]])
        return "card fell ill" if choice == 2 else "registration shrank"

    def _touch_node(self, rng: Random) -> str:
        item = self._some_node(rng)
        if item is None:
            return ""
        self._patch(NODE, item, {"metadata": {"labels": {"touched": str(rng.randrange(7))}}})
        return "node touched"

    def _touch_queue(self, rng: Random) -> str:
        """An administrator changes a queue, and now and then how the scheduler chooses and whether it evicts."""
        item: Any = self._store.get(QUEUE, "", rng.choice(manifests.QUEUES))
        if item is None:
            return ""
        spec: Json = {"weight": rng.choice((1, 3, 7))}
        if "capability" in item["spec"] and rng.random() < 0.5:
            spec["capability"] = manifests.capability(self._setting, rng)
        self._patch(QUEUE, item, {"spec": spec})
        if rng.random() < 0.2:
            return self._configure(rng)
        return "capability changed" if "capability" in spec else "queue changed"

    def _configure(self, rng: Random) -> str:
        setting = replace(
            self._setting,
            policy=rng.choice(("binpack", "spread", "")),
            eviction=self._setting.eviction and rng.random() < 0.8,
        )
        for item in manifests.configuration(setting):
            self._patch(CONFIG_MAP, item, {"data": item["data"]})
        return "configuration changed"


def _plain(item: Json) -> bool:
    """Groups of users, not those that a controller made."""
    return not item["metadata"].get("ownerReferences")
