"""What becomes of a Binding with preconditions when others write the pod at the same time, on a real kube-apiserver.

    python benchmarks/binding_race.py [--tries 1000]

Each try makes a pod, reads it, and sends one Binding with the uid and the resourceVersion that were read, while
somebody else does one of the things in ``CASES``. Then the pod is read: it must hold the node and all of our
annotations, or nothing of either. Printed per case: how often which answer came, and what of the Binding was on the
pod. Exit code 1 if a pod held only a part, or held a Binding that was answered with no, or one that came after the
fence.

kube-apiserver and etcd are the ones of the tests (``tests/parts``).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from parts.kube import KubeApiServer

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration
from adapters.cluster.port import ApiError, ApiUnknown
from events.canonical import Json
from events.kinds import NAMESPACE, POD

_NAMESPACE: Final = "race"
_NOTES: Final = {"gpuledger.dev/decision": "race/i/1.1/0", "volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1000,10:"}
_LATE_S: Final = 0.3


class Race:
    """The tries and their tally."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._random = random.Random(1)
        self.tally: Counter[tuple[str, str, str]] = Counter()
        self.broken: list[str] = []

    async def prepare(self) -> None:
        await self._api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})

    async def create(self, name: str) -> Json:
        """Make a pod and return it as the server has it."""
        container = {"name": "c", "image": "registry.example.test/x"}
        spec = {"schedulerName": "gpuledger", "containers": [container], "terminationGracePeriodSeconds": 0}
        meta = {"name": name, "namespace": _NAMESPACE}
        return await self._api.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def bind(self, pod: Json, node: str = "node-1") -> str:
        """Send the Binding with what was read as preconditions; return the answer in words."""
        meta = pod["metadata"]
        about = {"name": meta["name"], "namespace": _NAMESPACE, "uid": meta["uid"], "annotations": _NOTES,
                 "resourceVersion": meta["resourceVersion"]}  # fmt: skip
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}
        return await self._answer(self._api.bind(_NAMESPACE, meta["name"], binding))

    async def bind_soon(self, pod: Json) -> str:
        await asyncio.sleep(self.soon())
        return await self.bind(pod)

    async def patch(self, pod: Json, merge: Json, subresource: str = "") -> str:
        return await self._answer(self._api.patch(POD, _NAMESPACE, pod["metadata"]["name"], merge, subresource))

    async def delete(self, pod: Json) -> str:
        return await self._answer(self._api.delete(POD, _NAMESPACE, pod["metadata"]["name"], grace_s=0))

    async def fence(self, pod: Json) -> str:
        """Write the pod's condition with the version that was read, as the binder does before it gives up."""
        meta = pod["metadata"]
        condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "given up"}
        guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        return await self.patch(pod, {"metadata": guard, "status": {"conditions": [condition]}}, "status")

    async def landed(self, pod: Json) -> str:
        """Say what of the Binding is on the pod."""
        try:
            found = await self._api.get(POD, _NAMESPACE, pod["metadata"]["name"])
        except ApiError as error:
            return f"pod gone ({error.status})"
        notes = found["metadata"].get("annotations") or {}
        parts = [found["spec"].get("nodeName") or "", *(notes.get(key) or "" for key in _NOTES)]
        if all(parts):
            return f"all of it, {parts[0]}"
        if not any(parts):
            return "nothing"
        self.broken.append(f"{pod['metadata']['name']}: only a part landed: {parts}")
        return "a part"

    def soon(self) -> float:
        """A moment within the time that a Binding takes."""
        return self._random.random() * 0.005

    @staticmethod
    async def _answer(request: Awaitable[object]) -> str:
        try:
            await request
        except ApiError as error:
            return f"{error.status} {error.reason}: {_plain(error.message)}"
        except ApiUnknown as error:
            return f"no answer: {error}"
        return "yes"


def _plain(message: str) -> str:
    """Return a message without names, uids and versions."""
    text = re.sub(r'"(?:race-)?[\w.-]*\d[\w.-]*"', '"…"', message)
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|node-\d|race-\d+", "…", text)[:150]


async def alone(race: Race, pod: Json) -> str:
    return await race.bind(pod)


async def label_before(race: Race, pod: Json) -> str:
    await race.patch(pod, {"metadata": {"labels": {"a": "b"}}})
    return await race.bind(pod)


async def status_before(race: Race, pod: Json) -> str:
    await race.patch(pod, {"status": {"message": "touched"}}, "status")
    return await race.bind(pod)


async def recreated(race: Race, pod: Json) -> str:
    await race.delete(pod)
    await race.create(pod["metadata"]["name"])
    return await race.bind(pod)


async def deleted(race: Race, pod: Json) -> str:
    await race.delete(pod)
    return await race.bind(pod)


async def writer_meanwhile(race: Race, pod: Json) -> str:
    async def write() -> str:
        await asyncio.sleep(race.soon())
        return await race.patch(pod, {"metadata": {"annotations": {"other": "x"}}})

    answer, written = await asyncio.gather(race.bind_soon(pod), write())
    return f"{answer} (the other's write: {written})"


async def deletion_meanwhile(race: Race, pod: Json) -> str:
    async def delete() -> str:
        await asyncio.sleep(race.soon())
        return await race.delete(pod)

    answer, gone = await asyncio.gather(race.bind_soon(pod), delete())
    return f"{answer} (the deletion: {gone})"


async def two_binders(race: Race, pod: Json) -> str:
    answers = await asyncio.gather(race.bind(pod, "node-1"), race.bind(pod, "node-2"))
    if answers.count("yes") != 1:
        race.broken.append(f"{pod['metadata']['name']}: two Bindings: {answers}")
    return " | ".join(sorted(answers, reverse=True))


async def sent_again(race: Race, pod: Json) -> str:
    await race.bind(pod)
    return await race.bind(pod)


async def answer_lost(race: Race, pod: Json) -> str:
    """The binder loses the connection, finds the pod not assigned, fences it; nothing may land after that."""
    sending = asyncio.create_task(race.bind(pod))
    await asyncio.sleep(race.soon())
    lost = not sending.done()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    if not lost:
        return "answered in time"
    fenced = await race.fence(pod)
    before = await race.landed(pod)
    await asyncio.sleep(_LATE_S)
    after = await race.landed(pod)
    if before != after or (fenced == "yes" and after != "nothing"):
        race.broken.append(f"{pod['metadata']['name']}: fence {fenced}, then {before}, later {after}")
    return f"lost; fence: {fenced}"


CASES: Final[dict[str, Callable[[Race, Json], Awaitable[str]]]] = {
    "nobody else writes": alone,
    "labels written before": label_before,
    "status written before": status_before,
    "deleted before": deleted,
    "deleted and made again before": recreated,
    "annotation written meanwhile": writer_meanwhile,
    "deleted meanwhile": deletion_meanwhile,
    "two Bindings at once, two nodes": two_binders,
    "the same Binding again": sent_again,
    "connection lost, then the fence": answer_lost,
}


async def play(race: Race, tries: int) -> None:
    """Play the cases in turn, a few at once."""
    free = asyncio.Semaphore(4)

    async def one(number: int) -> None:
        case = list(CASES)[number % len(CASES)]
        async with free:
            pod = await race.create(f"race-{number}")
            answer = await CASES[case](race, pod)
            landed = await race.landed(pod)
            race.tally[(case, answer, landed)] += 1
            refused = not answer.startswith(("yes", "lost", "answered")) and case != "the same Binding again"
            if refused and landed.startswith("all"):
                race.broken.append(f"race-{number}: {case}: {answer}, and yet it landed")

    await asyncio.gather(*(one(number) for number in range(tries)))


async def main(tries: int) -> int:
    with tempfile.TemporaryDirectory() as home:
        server = KubeApiServer(Path(home))
        await server.start()
        api = await KubernetesApi.connect(kubeconfig_configuration(str(server.kubeconfig)))
        try:
            race = Race(api)
            await race.prepare()
            await play(race, tries)
        finally:
            await api.close()
            server.stop()
    for case in CASES:
        print(case)
        for (name, answer, landed), count in sorted(race.tally.items(), key=lambda item: -item[1]):
            if name == case:
                print(f"  {count:4d}  {answer}  ->  {landed}")
    print(*race.broken, f"{len(race.broken)} of {tries} broke the rule", sep="\n")
    return 1 if race.broken else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=1000)
    sys.exit(asyncio.run(main(parser.parse_args().tries)))
