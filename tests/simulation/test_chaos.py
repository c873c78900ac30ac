"""The simulation with faults: it finds nothing, forgets no seed that ever failed, and is the same every time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from services.simulator.chaos import plan, reduce
from services.simulator.chaos import run as chaos_run
from services.simulator.chaos.plan import Step, draw
from services.simulator.chaos.playing import Result, play
from services.simulator.chaos.run import MISFORTUNES, Report, expected_faults, keep, run, text_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: How many fresh seeds this test plays; ``make test`` and ``make soak`` play many more beside it.
SEEDS = int(os.environ.get("CHAOS_SEEDS", "6"))
FIRST = int(os.environ.get("CHAOS_FIRST", "700001"))
_DIGESTS = """
from services.simulator.chaos.run import play_seeds
print([result.digest for result in play_seeds([3, 11, 42], 250)])
"""


@pytest.mark.parametrize("path", sorted((HERE / "seeds").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_failed_once_never_fails_again(path: Path) -> None:
    assert play(plan.load(path.read_text())).failures == []


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_fresh_seeds(seed: int) -> None:
    assert play(draw(seed, 600)).failures == []


def test_a_seed_means_the_same_under_any_hash_seed() -> None:
    outputs = set()
    for hash_seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", _DIGESTS]
        outputs.add(subprocess.run(command, env=environment, capture_output=True, check=True, cwd=ROOT).stdout)
    assert len(outputs) == 1


def test_a_plan_can_be_kept_and_read_again() -> None:
    drawn = draw(9, 40)
    assert plan.load(plan.dump(drawn, "nothing")) == drawn


def test_a_failing_plan_is_reduced_to_the_steps_that_matter() -> None:
    """Of all steps only two are needed for the failure; these two are left."""
    drawn = draw(4, 60)
    needed = (drawn.steps[7], drawn.steps[31])

    def fails(candidate: plan.Plan) -> str:
        return "8: stuck" if all(step in candidate.steps for step in needed) else ""

    left, played = reduce.reduced(drawn, fails=fails)
    assert left.steps == needed
    assert played < 200


def test_failures_are_alike_if_they_are_about_the_same() -> None:
    one = Result(1, ["7: record a/b/s1.2 took effect twice, the second time at 9"])
    two = Result(2, ["7: record c/d/s3.4 took effect twice, the second time at 7"])
    other = Result(3, ["binder2 stopped: ValueError: 3"])
    assert reduce.kind_of_failure(one) == reduce.kind_of_failure(two)
    assert reduce.kind_of_failure(other) == "ValueError"
    assert reduce.kind_of_failure(Result(4)) == ""


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ValueError, match="step 'dance' is not known"):
        play(draw(1, 1).only([Step("dance", 1)]))


def test_a_report_names_failures_and_faults_that_never_fired(tmp_path: Path) -> None:
    report = run(1, 1, 30, processes=1)
    assert report.passed
    assert "30 steps" in text_of(report)
    missing = Report(missing=["poison: huge"])
    assert not missing.passed
    assert "never fired: poison: huge" in text_of(missing)
    assert len(expected_faults()) == len(set(expected_faults()))
    assert set(report.work) - {"refused"} <= {*MISFORTUNES, "pod", "gang", "job", "job deleted"}
    with mock.patch.object(chaos_run, "COMPLETE_FROM_STEPS", 1):
        never = run(2, 1, 1, processes=1).missing
    assert {*MISFORTUNES, *expected_faults()} >= {*never} >= {"same name, new uid", "database: disk full"}
    path, _, failures = keep(1, 20, tmp_path)
    assert failures == []
    assert path.exists()
