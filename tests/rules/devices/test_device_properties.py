"""Whatever the order of events, the books are those of what is there (devices/A-14 to A-16a, N-21 to N-23a, F-2)."""

from __future__ import annotations

from typing import Any

from device_builders import A100, World, card, config_env, container, env, holding, mig_card, mig_env, node, pod
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.devices.arguments import Rule
from scheduling.devices.books import NodeDevices, rebuild
from scheduling.devices.claims import Claim, claim_of, planned_claim
from scheduling.devices.fitting import Fit
from scheduling.devices.request import demand_of

RULE: Rule = (("team", "a"),)
UUIDS = ("GPU-a", "GPU-b", "GPU-m", "GPU-n")
REGISTERS = (
    None,
    "junk",
    card("GPU-a") + card("GPU-b"),
    card("GPU-b", 4096, 3) + mig_card("GPU-m") + card("GPU-a"),
    mig_card("GPU-a") + card("GPU-n", 40960, 7, A100, "mig"),
    card("GPU-m", 40960, 4) + "GPU-b,5,8192,NVIDIA-X,false,hami-core:",
)
ENVS = (
    env(policy="binpack", rules=(RULE,)),
    mig_env(policy="spread"),
    config_env(mig_env(weight=3, rules=(RULE,)), factor=2, default_cores=10),
)

suffixes = st.sampled_from(["", "", "[group1-0]", "[group1-6]", "[group2-0]", "[group2-3]", "[group9-0]", "[x"])
amounts = st.integers(0, 5000)
entries = st.builds("{}{},NVIDIA,{},{}:".format, st.sampled_from(UUIDS), suffixes, amounts, st.integers(0, 60))
odd = st.sampled_from(["GPU-a,NVIDIA,x,0:", ",,0,0:", "stray:", ";"])
records = st.lists(st.one_of(entries, entries, entries, odd), max_size=4).map("".join)
uids = st.sampled_from("pqrstu")


@st.composite
def pods(draw: st.DrawFn) -> Any:
    name = draw(uids)
    labels = {"team": "a"} if draw(st.booleans()) else {}
    group = {"scheduling.k8s.io/group-name": "g"} if draw(st.booleans()) else {}
    return holding(name, draw(records), labels=labels, annotations=group, number=draw(st.integers(0, 2)), memory=700)


events = st.lists(
    st.one_of(
        st.tuples(st.just("see"), pods()),
        st.tuples(st.just("see"), pods()),
        st.tuples(st.just("drop"), uids),
        st.tuples(st.just("node"), st.sampled_from(REGISTERS)),
        st.tuples(st.just("gone"), st.none()),
        st.tuples(st.just("env"), st.sampled_from(ENVS)),
    ),
    max_size=14,
)


@settings(max_examples=300)
@given(events)
def test_live_books_equal_rebuilt_books(steps: list[tuple[str, Any]]) -> None:
    """devices/A-14, A-16a, N-21, N-23a, N-16, X-10"""
    books = NodeDevices.empty("n1", ENVS[0])
    where, under, alive = None, ENVS[0], dict[str, Any]()
    for verb, item in steps:
        if verb == "see":
            claim = claim_of(item, under)
            assert claim is not None
            books, alive[item.uid] = books.with_claim(claim), item
        elif verb == "drop":
            books = books.without_claim(f"uid-{item}")
            alive.pop(f"uid-{item}", None)
        elif verb in ("node", "gone"):
            where = node(item) if verb == "node" else None
            books = books.with_node(where)
        else:
            books, under = books.with_env(item), item
    claims = [claim for item in alive.values() if (claim := claim_of(item, under)) is not None]
    fresh = rebuild("n1", under, where, reversed(claims))
    assert books == fresh
    assert list(books.books) == list(fresh.books)
    assert books.warnings == fresh.warnings
    for uid in alive:
        assert books.charge(uid) == fresh.charge(uid)
        assert books.only_orphans(uid) == fresh.only_orphans(uid)
    _sums_are_those_of_the_claims(books)
    probe = demand_of(pod("probe", number=1, memory=600, labels={"team": "a"}), under)
    assert books.fit(probe) == fresh.fit(probe)


def _sums_are_those_of_the_claims(books: NodeDevices) -> None:
    """Shares and cores on each card are exactly those of the claims; memory where no slice has its own size."""
    shares = [share for claim in books.claims.values() for share in claim.shares]
    for uuid in UUIDS:
        here = [share for share in shares if share.uuid == uuid]
        count, memory, cores = books.held(uuid)
        assert (count, cores) == (len(here), sum(share.cores for share in here))
        found = books.books.get(uuid)
        if found is None or not found.is_mig:
            assert memory == sum(share.memory for share in here)


@settings(max_examples=200)
@given(events, pods())
def test_with_and_without_are_inverses(steps: list[tuple[str, Any]], extra: Any) -> None:
    """devices/A-15, K-38"""
    books = NodeDevices.empty("n1", ENVS[1]).with_node(node(REGISTERS[3]))
    for verb, item in steps:
        if verb == "see":
            claim = claim_of(item, books.env)
            assert claim is not None
            books = books.with_claim(claim)
        elif verb == "node":
            books = books.with_node(node(item))
    added = claim_of(extra, books.env)
    assert added is not None
    before = books.claims.get(added.uid)
    there = books.with_claim(added)
    back = there.without_claim(added.uid)
    assert back == books.without_claim(added.uid)
    if before is not None:
        assert back.with_claim(before) == books


asked = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(0, 3),
        "memory": st.integers(0, 9000),
        "cores": st.integers(0, 100),
        "percentage": st.integers(0, 100),
    },
)


@settings(max_examples=300)
@given(
    st.sampled_from([text for text in REGISTERS if text]),
    st.sampled_from(ENVS),
    st.lists(st.tuples(st.lists(asked, min_size=1, max_size=3), st.booleans(), st.booleans()), max_size=12),
)
def test_placing_never_oversubscribes(register: str, under: Any, plan: list[Any]) -> None:
    """devices/F-2, F-3, F-21, X-5, A-14: and the answer's charge is what the books charge"""
    world = World(register, under)
    for number, (containers, labelled, spread) in enumerate(plan):
        annotations = {"scheduling.k8s.io/group-name": f"g{number % 2}"}
        if spread:
            annotations["volcano.sh/vgpu-podgroup-policy"] = "spread"
        item = pod(
            f"p{number}",
            *(container(**limits) for limits in containers),
            labels={"team": "a"} if labelled else {},
            annotations=annotations,
        )
        answer = world.answer(item)
        if not isinstance(answer, Fit):
            continue
        claim = planned_claim(item, under, answer.allocation, answer.gpu_index)
        assert claim.shares == answer.shares
        world.books = world.books.with_claim(claim)
        charge = world.books.charge(item.uid)
        assert charge is None or charge == answer.charge
    for found in world.books.cards:
        assert found.used_shares <= found.shares
        assert found.used_memory <= found.memory
        assert found.used_cores <= 100
        assert not found.blocked
        slots = [found.slice_of(holder.share) for holder in found.holders]
        assert not found.is_mig or len({(slot.group, slot.position) for slot in slots if slot}) == len(slots)
        if not found.is_mig:
            assert len({holder.uid for holder in found.holders if holder.rules}) <= 1
    assert not world.books.orphans


@settings(max_examples=100)
@given(st.lists(pods(), max_size=6), st.permutations(range(6)))
def test_claims_in_any_order(items: list[Any], order: list[int]) -> None:
    """devices/A-14, N-23a: also when the node comes last"""
    unique = {item.uid: item for item in items}
    claims: list[Claim] = [claim_of(item, ENVS[1]) for item in unique.values()]  # type: ignore[misc]
    first = NodeDevices.empty("n1", ENVS[1]).with_node(node(REGISTERS[4]))
    last = NodeDevices.empty("n1", ENVS[1])
    for claim in claims:
        first = first.with_claim(claim)
    for place in (place for place in order if place < len(claims)):
        last = last.with_claim(claims[place])
    assert last.with_node(node(REGISTERS[4])) == first
