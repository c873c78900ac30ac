"""scheduling/CFG-1 to CFG-13, GP-1: what is accepted, what is refused, and the words."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduling.config.model import ConfigReport, SchedulerConfig
from scheduling.config.parse import builtin_default, default_config, parse

TIER = "tiers: [{plugins: [{name: gang}]}]"
ACTIONS = "actions: enqueue, allocate, backfill"


def conf(actions: str = "enqueue, allocate, backfill", plugins: list[Any] | None = None, **more: Any) -> ConfigReport:
    """The report on a file with one tier."""
    return parse(
        yaml.safe_dump(
            {"actions": actions, "tiers": [{"plugins": plugins or [{"name": "gang"}]}], **more}, sort_keys=False
        )
    )


def accepted(report: ConfigReport) -> SchedulerConfig:
    assert report.errors == ()
    assert report.config is not None
    return report.config


def refused(report: ConfigReport) -> tuple[str, ...]:
    assert report.config is None
    assert report.errors
    return report.errors


def names(config: SchedulerConfig) -> list[list[str]]:
    return [[option.name for option in tier] for tier in config.tiers]


def test_default() -> None:
    """scheduling/CFG-4a: the seeds' configuration."""
    config = default_config()
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert names(config) == [
        ["priority", "gang", "conformance"],
        ["drf", "deviceshare", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    share = config.plugin("deviceshare")
    assert share is not None
    assert share.arguments == {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"}


def test_builtin_default() -> None:
    """scheduling/CFG-4: the reference's own default has overcommit and no deviceshare."""
    config = builtin_default()
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert names(config) == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ]


def test_file() -> None:
    """scheduling/CFG-1, CFG-5: actions are trimmed, tiers keep their order, the first action entry of a name counts."""
    report = parse(
        """
        actions: " enqueue ,allocate,  backfill "
        tiers:
        - plugins:
          - name: priority
          - name: gang
            enablePreemptable: false
        - plugins:
          - name: binpack
            arguments:
              binpack.weight: 10
        configurations:
        - name: allocate
          arguments: {predicateErrorCacheEnable: false}
        - name: allocate
          arguments: {predicateErrorCacheEnable: true}
        - name: enqueue
          arguments: {inqueue-timeout: 5m}
        metrics: {type: prometheus}
        """
    )
    config = accepted(report)
    assert config.actions == ("enqueue", "allocate", "backfill")
    assert names(config) == [["priority", "gang"], ["binpack"]]
    assert config.action_arguments == {
        "allocate": {"predicateErrorCacheEnable": False},
        "enqueue": {"inqueue-timeout": "5m"},
    }
    assert report.warnings == ("configurations[1]: allocate is configured before, ignored",)


def test_unknown_top_keys_are_ignored() -> None:
    """scheduling/CFG-1: with a warning."""
    report = conf(extra=1)
    assert report.config is not None
    assert report.warnings == ("unknown key extra",)


def test_switches() -> None:
    """scheduling/CFG-2, CFG-3, CFG-3a: an absent switch is on, but two; boolean strings count."""
    option = accepted(conf(plugins=[{"name": "gang", "enablePreemptable": "false", "enabledOverused": "T"}])).tiers[0][
        0
    ]
    assert not option.on("enablePreemptable")
    assert option.on("enabledOverused")
    assert option.on("enableJobOrder")
    assert not option.on("enableHierarchy")
    assert not option.on("enabledClusterOrder")


@pytest.mark.parametrize("value", ["no way", "yes please", 1, 0, [], {}, 1.5])
def test_switch_that_is_no_boolean_refuses_the_file(value: Any) -> None:
    """scheduling/CFG-3a: the error names tier, plugin and key."""
    (error,) = refused(conf(plugins=[{"name": "gang", "enableJobReady": value}]))
    assert error.startswith("tier 0 plugin gang: enableJobReady must be true or false, got ")


def test_unknown_key_of_a_plugin_entry() -> None:
    """scheduling/CFG-2a: ignored with a warning that names tier, plugin and key, and where it belongs."""
    report = conf(plugins=[{"name": "deviceshare", "deviceshare.VGPUEnable": True, "enabledJobReady": False}])
    assert accepted(report).tiers[0][0].arguments == {}
    assert set(report.warnings) == {
        "tier 0 plugin deviceshare: unknown key deviceshare.VGPUEnable, belongs under arguments",
        "tier 0 plugin deviceshare: unknown key enabledJobReady",
    }


@pytest.mark.parametrize(
    ("actions", "name"),
    [
        ("enqueue, allocat, backfill", "allocat"),
        ("", ""),
        ("allocate,", ""),
        ("enqueue, shuffle", "shuffle"),
        ("Allocate", "Allocate"),
    ],
)
def test_unknown_action(actions: str, name: str) -> None:
    """scheduling/CFG-6, CFG-13: an unknown or empty action refuses the file; shuffle is unknown."""
    assert refused(conf(actions)) == (f"failed to find Action {name}",)


def test_absent_actions() -> None:
    """scheduling/CFG-6: the same as empty ones."""
    assert refused(parse(TIER)) == ("failed to find Action ",)
    assert refused(parse(f"actions:\n{TIER}")) == ("failed to find Action ",)
    assert refused(parse(f"actions: [allocate]\n{TIER}")) == (
        "actions must be a string of names separated by commas, got list",
    )


def test_known_actions() -> None:
    """scheduling/CFG-13: those that exist."""
    assert accepted(conf("enqueue, allocate, preempt, reclaim, backfill")).actions[2:4] == ("preempt", "reclaim")
    assert accepted(conf("allocate, gangpreempt, gangreclaim")).actions[1:] == ("gangpreempt", "gangreclaim")


@pytest.mark.parametrize("whole", ["gangpreempt", "gangreclaim"])
@pytest.mark.parametrize("single", ["preempt", "reclaim"])
def test_gang_eviction_beside_the_single_one(whole: str, single: str) -> None:
    """scheduling/GP-1: refused."""
    assert refused(conf(f"allocate, {single}, {whole}")) == (
        f"actions {whole} and {single} cannot be configured together",
    )


@pytest.mark.parametrize("text", ["a: [", "\tactions: x", "a: b: c", "a: 'x", "{", "a: &x 1\nb: *y", "%", "a: \x07"])
def test_broken_yaml(text: str) -> None:
    """scheduling/CFG-6: one error, one line, that says where."""
    (error,) = refused(parse(text))
    assert error.startswith("yaml: ")
    assert "\n" not in error


@pytest.mark.parametrize(
    ("tiers", "errors"),
    [
        ("", ("no tiers",)),
        ("tiers:", ("no tiers",)),
        ("tiers: []", ("no tiers",)),
        ("tiers: {plugins: [{name: gang}]}", ("tiers must be a list, got map",)),
        ("tiers: [{plugins: []}]", ("tier 0 has no plugins",)),
        ("tiers: [{plugins: {name: gang}}]", ("tier 0 has no plugins",)),
        ("tiers:\n- plugins:\n- name: priority\n- name: gang", tuple(f"tier {n} has no plugins" for n in range(3))),
        ("tiers: [gang]", ("tier 0 has no plugins",)),
        ("tiers: [{plugins: [{name: gang}, {arguments: {}}]}]", ("tier 0 plugin 1 has no name",)),
        ("tiers: [{plugins: [gang]}]", ("tier 0 plugin 0 has no name",)),
        ("tiers: [{plugins: [{name: 7}]}]", ("tier 0 plugin 0 has no name",)),
        (
            "tiers: [{plugins: [{name: gang, arguments: [a]}]}]",
            ("tier 0 plugin gang: arguments must be a map, got list",),
        ),
    ],
)
def test_other_shape(tiers: str, errors: tuple[str, ...]) -> None:
    """scheduling/CFG-6b: a file of another shape is refused, not read as empty."""
    assert refused(parse(f"{ACTIONS}\n{tiers}")) == errors


@pytest.mark.parametrize("text", ["- a", "text", "7"])
def test_not_a_mapping(text: str) -> None:
    """scheduling/CFG-1, CFG-6b: the file is a mapping."""
    assert refused(parse(text))[0].startswith("configuration must be a map, got ")


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}"])
def test_empty_file(text: str) -> None:
    """scheduling/CFG-6, CFG-6b: it has no action and no tiers."""
    assert refused(parse(text)) == ("failed to find Action ", "no tiers")


@pytest.mark.parametrize("together", [True, False])
def test_hierarchy_and_proportion(together: bool) -> None:
    """scheduling/CFG-7: refused, in one tier and across tiers."""
    entries = [{"name": "drf", "enableHierarchy": True}, {"name": "proportion"}]
    tiers = [{"plugins": entries}] if together else [{"plugins": [entry]} for entry in entries]
    report = parse(yaml.safe_dump({"actions": "allocate", "tiers": tiers}))
    assert refused(report) == ("proportion and drf with hierarchy enabled conflicts",)
    accepted(conf(plugins=[{"name": "drf", "enableHierarchy": False}, {"name": "proportion"}]))
    accepted(conf(plugins=[{"name": "drf", "enableHierarchy": True}, {"name": "capacity"}]))


def test_capacity_and_proportion() -> None:
    """scheduling/CFG-13: capacity must not be configured with proportion."""
    report = conf(plugins=[{"name": "capacity"}, {"name": "proportion"}])
    assert refused(report) == ("plugins capacity and proportion cannot be configured together",)


@pytest.mark.parametrize(
    "name",
    [
        "nonsense", "cdp", "extender", "network-topology-aware", "nodegroup", "numaaware", "pdb",
        "resource-strategy-fit", "resourcequota", "task-topology", "usage",
    ],
)  # fmt: skip
def test_unknown_plugin(name: str) -> None:
    """scheduling/CFG-8, CFG-13: not fatal, and left out; so are plugins that do not exist yet."""
    report = conf(plugins=[{"name": "gang"}, {"name": name, "arguments": {"x": 1}}])
    assert names(accepted(report)) == [["gang"]]
    assert report.warnings == (f"Failed to get plugin {name}.",)


def test_known_plugins() -> None:
    """scheduling/CFG-13: those that exist are taken without a word."""
    known = ["priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder", "binpack"]
    report = conf(plugins=[{"name": name} for name in [*known, "deviceshare", "overcommit", "sla", "tdm"]])
    assert len(accepted(report).tiers[0]) == 12
    assert report.warnings == ()
    assert accepted(conf(plugins=[{"name": "capacity"}])).plugin("capacity") is not None


def test_second_entry_of_a_plugin() -> None:
    """scheduling/CFG-2: the first entry counts, with a warning."""
    report = conf(plugins=[{"name": "binpack", "arguments": {"binpack.cpu": 2}}, {"name": "binpack"}])
    assert names(accepted(report)) == [["binpack"]]
    assert report.warnings == ("tier 0 plugin binpack: configured before, ignored",)


def test_arguments_of_the_wrong_type() -> None:
    """scheduling/CFG-11, devices/P-11: the default stays, with a warning in the rule's words."""
    report = conf(
        plugins=[
            {"name": "binpack", "arguments": {"binpack.weight": "10", "binpack.resources": 3}},
            {"name": "predicates", "arguments": {"predicate.PodAffinityEnable": "maybe"}},
            {"name": "overcommit", "arguments": {"overcommit-factor": "1.0"}},
            {"name": "sla", "arguments": {"sla-waiting-time": "soon"}},
        ],
        configurations=[{"name": "enqueue", "arguments": {"inqueue-timeout": 600}}],
    )
    accepted(report)
    assert report.warnings == (
        "Could not parse argument: 10 for key binpack.weight to int",
        "Could not parse argument: 3 for key binpack.resources to string",
        "Could not parse argument: maybe for key predicate.PodAffinityEnable to bool",
        "Could not parse argument: 1.0 for key overcommit-factor to float",
        "Could not parse argument: soon for key sla-waiting-time to duration",
        "Could not parse argument: 600 for key inqueue-timeout to duration",
    )


def test_arguments_of_gang_eviction() -> None:
    """scheduling/GP-1, CFG-11: typed like all others; any whole number of domains will do."""
    arguments = {"maxDomains": "8", "allowWholeBundle": "no"}
    report = conf("allocate, gangpreempt", configurations=[{"name": "gangpreempt", "arguments": arguments}])
    accepted(report)
    assert report.warnings == (
        "Could not parse argument: 8 for key maxDomains to int",
        "Could not parse argument: no for key allowWholeBundle to bool",
    )
    fine = {"maxDomains": 0, "allowWholeBundle": "false"}
    report = conf("allocate, gangreclaim", configurations=[{"name": "gangreclaim", "arguments": fine}])
    accepted(report)
    assert report.warnings == ()


def test_arguments_of_the_right_type() -> None:
    """scheduling/CFG-11: floats accept integers, booleans strings, names may be families."""
    report = conf(
        plugins=[
            {"name": "binpack", "arguments": {"binpack.resources": "a.b/c", "binpack.resources.a.b/c": 4}},
            {"name": "predicates", "arguments": {"predicate.PodAffinityEnable": "F"}},
            {"name": "overcommit", "arguments": {"overcommit-factor": 2}},
            {"name": "tdm", "arguments": {"tdm.revocable-zone.rz1": "10:00-21:00", "tdm.evict.period": "1m"}},
        ],
        configurations=[{"name": "enqueue", "arguments": {"inqueue-timeout": 0}}],
    )
    accepted(report)
    assert report.warnings == ()


def test_unknown_argument() -> None:
    """scheduling/CFG-1: ignored with a warning (section 9, 31)."""
    report = conf(plugins=[{"name": "gang", "arguments": {"gang.size": 1}}])
    accepted(report)
    assert report.warnings == ("tier 0 plugin gang: unknown argument gang.size",)


def share(**arguments: Any) -> dict[str, Any]:
    return {"name": "deviceshare", "arguments": {f"deviceshare.{key}": value for key, value in arguments.items()}}


BOTH = "can not define true in both gpu sharing and gpu number"
MIXED = "gpu-share and vgpu can't be used together"


@pytest.mark.parametrize(
    ("plugins", "error"),
    [
        ([share(GPUSharingEnable=True, GPUNumberEnable=True)], BOTH),
        ([share(GPUSharingEnable="true", GPUNumberEnable="1")], BOTH),
        ([share(GPUSharingEnable=True, VGPUEnable=True)], MIXED),
        ([share(GPUNumberEnable=True, VGPUEnable=True)], MIXED),
        ([share(VGPUEnable=True), {"name": "predicates", "arguments": {"predicate.GPUSharingEnable": True}}], MIXED),
        (
            [{"name": "predicates", "arguments": {"predicate.GPUNumberEnable": True}}, share(GPUSharingEnable=True)],
            BOTH,
        ),
    ],
)
def test_device_conflicts(plugins: list[Any], error: str) -> None:
    """scheduling/CFG-12, devices/P-12, P-15: old and new keys, wherever they stand."""
    assert error in refused(conf(plugins=plugins))


def test_old_keys_alone_are_accepted() -> None:
    """devices/P-15: the old place turns the feature on, without deviceshare and without an unknown argument."""
    report = conf(plugins=[{"name": "predicates", "arguments": {"predicate.GPUSharingEnable": True}}])
    accepted(report)
    assert report.warnings == ()


def test_exclusive_rule_error_refuses_the_file() -> None:
    """scheduling/CFG-6a, devices/X-2: in the words of the device rules."""
    report = conf(plugins=[share(VGPUEnable=True, GPUExclusiveRules=[{"workloadType": "batch", "tier": 1}])])
    assert refused(report) == ("deviceshare.GPUExclusiveRules[0].tier must be a string, got integer 1",)


def test_all_errors_are_reported_at_once() -> None:
    """scheduling/CFG-6, CFG-6b: nobody has to find them one by one."""
    report = parse("actions: go\ntiers:\n- plugins: []\n- plugins: [{name: gang, enableJobReady: maybe}]\n")
    assert refused(report) == (
        "failed to find Action go",
        "tier 0 has no plugins",
        "tier 1 plugin gang: enableJobReady must be true or false, got maybe",
    )


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"configurations": {"name": "allocate"}}, "configurations must be a list, got map"),
        ({"configurations": ["allocate"]}, "configurations[0] must be a map with name and a map of arguments"),
        (
            {"configurations": [{"name": "allocate", "arguments": 5}]},
            "configurations[0] must be a map with name and a map of arguments",
        ),
        ({"metrics": [1]}, "metrics must be a map, got list"),
    ],
)
def test_other_keys_of_another_shape(more: dict[str, Any], error: str) -> None:
    """scheduling/CFG-6b: refused too."""
    assert refused(conf(**more)) == (error,)


def test_arguments_of_an_unknown_action() -> None:
    """scheduling/CFG-5: without effect, with a warning."""
    report = conf(configurations=[{"name": "shuffle", "arguments": {}}, {"arguments": {}}])
    assert accepted(report).action_arguments == {}
    assert report.warnings == (
        "configurations[0]: no action shuffle, ignored",
        "configurations[1]: no action null, ignored",
    )


def test_window_of_a_revocable_zone() -> None:
    """scheduling/CFG-13 tdm: HH:MM-HH:MM, else a warning."""
    report = conf(plugins=[{"name": "tdm", "arguments": {"tdm.revocable-zone.rz1": "10:00 to 25:00"}}])
    assert accepted(report).plugin("tdm") is not None
    assert report.warnings == (
        "Could not parse argument: 10:00 to 25:00 for key tdm.revocable-zone.rz1 to HH:MM-HH:MM",
    )


def test_plugin_without_effect() -> None:
    """scheduling/CFG-13 rescheduling: it only works through shuffle, which CFG-6 refuses; it is not silently idle."""
    report = conf(plugins=[{"name": "rescheduling"}])
    assert accepted(report).plugin("rescheduling") is not None
    (warning,) = report.warnings
    assert warning.startswith("tier 0 plugin rescheduling: no effect")
