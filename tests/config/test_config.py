"""Recipes: defaults, files, overrides, and errors that name the key and the closest known one."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from turnwise.config import PRESETS, AlgorithmConfig, Recipe, override_recipe, parse_settings, read_recipe
from turnwise.training.algorithms.advantages import ADVANTAGES
from turnwise.training.algorithms.aggregate import AGGREGATIONS
from turnwise.training.algorithms.correction import CORRECTIONS
from turnwise.training.algorithms.losses import LOSSES

PATHS = {"tasks.train", "tasks.validation", "tasks.test", "tools.mcp", "tools.cassette", "run.folder"}


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def keys_of(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key with its type; blocks of a list are left out."""
    for name, field in section.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys_of(kind, f"{prefix}{name}.")
        else:
            yield prefix + name, kind


def value_of(recipe: Recipe, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(recipe, section), name)


def test_a_file_is_read_and_overrides_win(tmp_path: Path) -> None:
    assert read_recipe(None) == Recipe()
    path = write(tmp_path, "seed = 3\n[rollout]\ngroup_size = 4\ntemperature = 0.7\n")
    overrides = ["rollout.group_size=2", "engine.kind=scripted", "model.system_prompt=Be brief"]
    recipe = read_recipe(path, parse_settings(overrides))
    assert (recipe.seed, recipe.rollout.group_size, recipe.rollout.temperature) == (3, 2, 0.7)
    assert (recipe.engine.kind, recipe.model.system_prompt) == ("scripted", "Be brief")


def test_a_flag_is_named_by_what_it_turns_on() -> None:
    prefixes = ("is", "has", "use", "enable", "disable", "no", "not", "with", "do", "should", "can")
    flags = [key.rpartition(".")[2] for key, kind in keys_of(Recipe) if kind is bool]
    assert len(flags) > 5
    assert [flag for flag in flags if flag.split("_")[0] in prefixes] == []


def test_relative_paths_in_a_file_are_relative_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = write(
        tmp_path,
        '[tasks]\ntrain = "data/train.jsonl"\nvalidation = "~/held.jsonl"\n'
        '[tools]\nmcp = "/etc/mcp.json"\n[run]\nfolder = "out"\n',
    )
    recipe = read_recipe(path)
    assert recipe.tasks.train == tmp_path / "data" / "train.jsonl"
    assert recipe.tasks.validation == Path.home() / "held.jsonl"
    assert recipe.tasks.test is None
    assert recipe.tools.mcp == Path("/etc/mcp.json")
    assert recipe.run.folder == tmp_path / "out"
    assert read_recipe(write(tmp_path, "seed = 1\n")).run.folder == Path("runs"), "not the default"


def test_relative_paths_on_the_command_line_are_relative_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert {key for key, kind in keys_of(Recipe) if "Path" in str(kind)} == PATHS
    for key in PATHS:
        section, name = key.split(".")
        recipe = read_recipe(
            write(tmp_path, f'[{section}]\n{name} = "from_the_file"\n'), parse_settings([f"{key}=a/b"])
        )
        assert value_of(recipe, key) == here / "a" / "b"
        as_table = read_recipe(write(tmp_path, "seed = 1\n"), parse_settings([f"{section}={{{name}='~/b'}}"]))
        assert value_of(as_table, key) == Path.home() / "b"
        assert value_of(override_recipe(recipe, parse_settings([f"{key}=c"])), key) == here / "c"
        assert value_of(override_recipe(recipe, {"seed": 3}), key) == here / "a" / "b"


def test_a_model_that_is_a_folder_becomes_absolute_and_a_name_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    for folder in (here / "warm", here / "embedded", tmp_path / "models"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here))
    file = write(tmp_path, '[model]\npath = "models"\n')
    assert read_recipe(file).model.path == str(tmp_path / "models")
    for given, expected in {
        "warm": str(here / "warm"),
        "~/warm": str(here / "warm"),
        "embedded": "embedded",
        "Qwen/Qwen3-0.6B": "Qwen/Qwen3-0.6B",
    }.items():
        assert read_recipe(file, parse_settings([f"model.path={given}"])).model.path == expected


def test_a_name_means_the_included_recipe_unless_there_is_such_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    included = read_recipe(Path("cpu"))
    assert included.policy.tuning == "full"
    assert included.tasks.train is not None
    assert included.tasks.train.is_file()
    with pytest.raises(ValueError, match=r"nosuch: no such file; the included recipes are .*cpu, gpu_lora"):
        read_recipe(Path("nosuch"))
    (tmp_path / "cpu").write_text("seed = 7")
    assert read_recipe(Path("cpu")).seed == 7


def test_a_recipe_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder, not a recipe"):
        read_recipe(tmp_path)
    with pytest.raises(ValueError, match=r"absent\.toml: no such file"):
        read_recipe(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"binary\.toml: not UTF-8"):
        read_recipe(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[rolout]", "recipe.toml: rolout: no such key; did you mean 'rollout'?"),
        ("[rollout]\ngroup_sise = 2", "rollout.group_sise: no such key; did you mean 'group_size'?"),
        ("[rollout]\nzzz = 2", "rollout.zzz: no such key; known: group_size,"),
        ('[[rewards]]\nname = "outcome"\nwieght = 2', "rewards.0.wieght: no such key; did you mean"),
        ('[[rewards]]\nname = "outcome"\nweight = true', "rewards.0.weight: expected a number, got true"),
        ('[engine]\nkind = "vlm"', "'transformers', 'vllm', 'remote' or 'scripted', got 'vlm'"),
        (f'[model]\npath = "{"x" * 5_000}"', "File name too long"),
        ("seed = [", "recipe.toml: not TOML"),
        (f"seed = {'[' * 5_000}{']' * 5_000}", "nested too deeply"),
        ('[algorithm]\npreset = "grop"', "algorithm.preset: Input should be"),
        ('[algorithm.kl]\nplacement = "reward"', "needs a reference: set reference.kind"),
        ('[algorithm]\nloss = "gspo"\nadvantage = "turn"', "one ratio per sequence"),
        ('[run]\nmode = "async"\n[algorithm]\ncorrection = "none"', "stale samples are off-policy"),
        ('[run]\nmode = "async"\n[rollout]\nlockstep = true', "rollout.lockstep does not work"),
        ('[engine]\nkind = "vllm"\n[rollout]\nlockstep = true', "it forms its own batches"),
        (
            '[value]\ntrunk = "adapter"\n[algorithm]\nadvantage = "gae"\n[policy]\ntuning = "full"',
            "needs policy.tuning = 'lora'",
        ),
        ('[health]\nhalt = ["kl_cap"]\nignore = ["kl_cap"]', "health: kl_cap: named in both halt and ignore"),
        ('[health]\nhalt = ["kl_kap"]', "health.halt.0: Input should be 'alignment',"),
        ('trackers = ["wandbb"]', "trackers.0: kind 'wandbb' is not one of wandb, weave,"),
        ('trackers = ["wandbb"]', "did you mean 'wandb'?"),
        ('trackers = ["wandb", "wandb"]', "trackers: wandb: named more than once"),
        ("trackers = [3]", "trackers.0: is a section, expected its keys, got 3"),
        ('[[trackers]]\nkind = "wandb"\nprojekt = "x"', "trackers.0.projekt: no such key; did you mean"),
        ('[[trackers]]\nkind = "weave"\nspace = "x"', "space is an option of trackio, not of weave"),
        ('[[trackers]]\nkind = "wandb"\noptions = {a = 1}', "options are for trackers of your own"),
    ],
    ids=lambda text: text[:40],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        read_recipe(write(tmp_path, text + "\n"))


OUT_OF_RANGE = "temperature must be 0 or from 0.01 to 100, not"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("rollout.group_size", "--set rollout.group_size: expected KEY=VALUE"),
        ("=3", "--set =3: expected KEY=VALUE"),
        ("seed.x=3", "seed is not a section"),
        (f"seed={'[' * 5_000}{']' * 5_000}", "nested too deeply"),
        ("tasks.train=~nosuchuser/x", "no such user"),
        ("rollout.temperature=1e-320", f"rollout.temperature: {OUT_OF_RANGE} 1e-320"),
        ("rollout.temperature=-1", f"rollout.temperature: {OUT_OF_RANGE} -1.0"),
        ("rollout.temperature=1e300", f"rollout.temperature: {OUT_OF_RANGE} 1e+300"),
        ("rollout.temperature=nan", "rollout.temperature: Input should be a finite number, got nan"),
        ("rollout.final_temperature=1e-9", f"rollout.final_temperature: {OUT_OF_RANGE} 1e-09"),
        ("rollout.final_temperature=0", "rollout.final_temperature: Input should be greater than 0, got 0"),
        ("rollout.final_temperature=true", "rollout.final_temperature: expected a number, got true"),
        ("evaluation.temperature=1e-320", f"evaluation.temperature: {OUT_OF_RANGE} 1e-320"),
        ("optimizer.betas=0.9", "optimizer.betas: expected a list in brackets, got 0.9"),
        ("rollout=4", "rollout: is a section, expected its keys, got 4"),
        ("group_size=4", "group_size: no such key; did you mean 'rollout.group_size'?"),
        ("rollout.tokens_per_turn=0", "Input should be greater than or equal to 1, got 0"),
        ("rollout.group_size=true", "rollout.group_size: expected a number, got true"),
        ("rollout.seconds=inf", "rollout.seconds: Input should be a finite number, got inf"),
        ("seed=9223372036854775808", "seed: Input should be less than 9223372036854775808"),
    ],
    ids=lambda text: text[:40],
)
def test_a_mistake_in_an_override_is_named(setting: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        read_recipe(None, parse_settings(["seed=1", setting]))


@pytest.mark.parametrize("preset", PRESETS)
def test_keys_of_the_recipe_override_its_preset(tmp_path: Path, preset: str) -> None:
    plain = read_recipe(None, parse_settings([f"algorithm.preset={preset}"]))
    for section, keys in PRESETS[preset].items():
        given = getattr(plain, section).model_dump()
        expected = {key: value for key, value in keys.items() if key != "kl"}
        assert {key: given[key] for key in expected} == expected
    text = f'[algorithm]\npreset = "{preset}"\nadvantage = "maxrl"\nloss = "clip"\n'
    changed = read_recipe(write(tmp_path, text)).algorithm
    assert (changed.preset, changed.advantage, changed.loss) == (preset, "maxrl", "clip")
    assert changed.kl == plain.algorithm.kl, "nested sections are merged, not replaced"


@pytest.mark.parametrize(
    ("key", "registered"),
    [
        ("advantage", {*ADVANTAGES, "turn", "gae"}),
        ("loss", set(LOSSES)),
        ("aggregation", set(AGGREGATIONS)),
        ("correction", set(CORRECTIONS)),
        ("preset", {"", *PRESETS}),
    ],
)
def test_every_registered_part_of_an_algorithm_can_be_selected(key: str, registered: set[str]) -> None:
    assert set(get_args(AlgorithmConfig.model_fields[key].annotation)) == registered


def test_settings_that_a_run_cannot_learn_from_are_rejected() -> None:
    settings = read_recipe(None, {"rollout.temperature": 0, "run.tasks_per_step": 3})
    with pytest.raises(ValueError, match=r"tasks\.train is not set"):
        settings.tasks.require_train()
    with pytest.raises(ValueError, match=r"rollout\.temperature is 0"):
        settings.rollout.require_exploration()
    with pytest.raises(ValueError, match=r"tasks\.train has 2 tasks, run\.tasks_per_step is 3"):
        settings.run.check_num_tasks(2)
    sound = read_recipe(None, {"tasks.train": "some.jsonl"})
    assert sound.tasks.files == {"train": sound.tasks.require_train()} == {"train": Path.cwd() / "some.jsonl"}
    sound.rollout.require_exploration()
    settings.run.check_num_tasks(3)


@pytest.mark.parametrize(
    ("settings", "is_adapter"),
    [
        (["engine.kind=vllm"], False),
        (["engine.kind=vllm", "run.mode=async", "rollout.tokens_per_turn=1024"], False),
        (["engine.kind=vllm", "run.mode=async", "rollout.tokens_per_turn=1025"], True),
        (["engine.kind=vllm", "rollout.tokens_per_turn=1025"], False),
        (["engine.kind=vllm", "model.quantisation=nf4"], True),
        (["engine.kind=vllm", "run.mode=async", "engine.adapters=true"], True),
        (["engine.kind=vllm", "policy.tuning=full", "run.mode=async", "rollout.tokens_per_turn=1025"], False),
        (["engine.kind=remote", "engine.remote.url=http://127.0.0.1:8100"], True),
    ],
)
def test_adapters_are_published_merged_unless_that_is_slow_or_impossible(
    settings: list[str], is_adapter: bool
) -> None:
    assert read_recipe(None, parse_settings(settings)).publishes_adapters is is_adapter


def test_a_resolved_recipe_can_be_changed_and_keeps_the_rest(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, '[algorithm]\npreset = "grpo"\n[run]\nnum_steps = 3\n'))
    changed = override_recipe(recipe, {"run.num_steps": 9})
    assert changed.run.num_steps == 9
    assert changed.algorithm == recipe.algorithm
    with pytest.raises(ValueError, match="did you mean 'num_steps'"):
        override_recipe(recipe, {"run.num_stepz": 9})


def test_trackers_are_named_or_given_as_blocks(tmp_path: Path) -> None:
    named = read_recipe(write(tmp_path, 'trackers = ["wandb", "tensorboard"]\n'))
    assert [tracker.kind for tracker in named.trackers] == ["wandb", "tensorboard"]
    blocks = '[[trackers]]\nkind = "wandb"\nproject = "a/b"\n[[trackers]]\nkind = "my.module:Tracker"\n'
    given = read_recipe(write(tmp_path, blocks))
    expected = [("wandb", "a/b"), ("my.module:Tracker", "")]
    assert [(tracker.kind, tracker.project) for tracker in given.trackers] == expected
    assert override_recipe(given, {"seed": 3}).trackers == given.trackers
    assert [tracker.kind for tracker in override_recipe(given, {"trackers": "trackio"}).trackers] == [
        "trackio"
    ]
