"""Recipes: defaults, files, overrides, and errors that name the key and the closest known one."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from turnwise.algorithms.advantages import ADVANTAGES
from turnwise.algorithms.aggregate import AGGREGATIONS
from turnwise.algorithms.correction import CORRECTIONS
from turnwise.algorithms.losses import LOSSES
from turnwise.config import PRESETS, AlgorithmConfig, Recipe, load_recipe, override_recipe


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def test_no_file_gives_the_defaults() -> None:
    assert load_recipe(None) == Recipe()


def test_a_file_is_read_and_overrides_win(tmp_path: Path) -> None:
    path = write(tmp_path, "seed = 3\n[rollout]\ngroup_size = 4\ntemperature = 0.7\n")
    recipe = load_recipe(
        path, ["rollout.group_size=2", "engine.kind=scripted", "model.system_prompt=Be brief"]
    )
    assert (recipe.seed, recipe.rollout.group_size, recipe.rollout.temperature) == (3, 2, 0.7)
    assert recipe.engine.kind == "scripted"
    assert recipe.model.system_prompt == "Be brief"


def test_relative_paths_in_the_file_are_relative_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = write(
        tmp_path,
        '[tasks]\ntrain = "data/train.jsonl"\nvalidation = "~/held.jsonl"\n'
        '[tools]\nmcp = "/etc/mcp.json"\ncassette = "calls"\n[run]\nfolder = "out"\n',
    )
    recipe = load_recipe(path)
    assert recipe.tasks.train == tmp_path / "data" / "train.jsonl"
    assert recipe.tasks.validation == Path.home() / "held.jsonl"
    assert recipe.tasks.test is None
    assert recipe.tools.mcp == Path("/etc/mcp.json")
    assert recipe.tools.cassette == tmp_path / "calls"
    assert recipe.run.folder == tmp_path / "out"
    assert load_recipe(write(tmp_path, "seed = 1\n")).run.folder == Path("runs"), "not the default"


PATH_KEYS = ["tasks.train", "tasks.validation", "tasks.test", "tools.mcp", "tools.cassette", "run.folder"]


def path_keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from path_keys(kind, f"{prefix}{name}.")
        elif "Path" in str(kind):
            yield prefix + name


def test_every_path_key_is_tested() -> None:
    assert set(path_keys(Recipe)) == set(PATH_KEYS)


@pytest.mark.parametrize("key", PATH_KEYS)
def test_a_relative_path_on_the_command_line_is_relative_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    section, name = key.split(".")
    recipe = load_recipe(write(tmp_path, f'[{section}]\n{name} = "from_the_file"\n'), [f"{key}=a/b"])
    assert getattr(getattr(recipe, section), name) == here / "a" / "b"
    as_table = load_recipe(write(tmp_path, "seed = 1\n"), [f"{section}={{{name}='~/b'}}"])
    assert getattr(getattr(as_table, section), name) == Path.home() / "b"
    resumed = override_recipe(recipe, [f"{key}=c"])
    assert getattr(getattr(resumed, section), name) == here / "c"
    untouched = override_recipe(recipe, ["seed=3"])
    assert getattr(getattr(untouched, section), name) == here / "a" / "b"


def test_a_model_that_is_a_folder_becomes_absolute_and_a_name_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    for folder in (here / "warm", here / "embedded", tmp_path / "models"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    file = write(tmp_path, '[model]\npath = "models"\n')
    assert load_recipe(file).model.path == str(tmp_path / "models")
    assert load_recipe(file, ["model.path=warm"]).model.path == str(here / "warm")
    assert load_recipe(file, ["model.path=embedded"]).model.path == "embedded"
    assert load_recipe(file, ["model.path=Qwen/Qwen3-0.6B"]).model.path == "Qwen/Qwen3-0.6B"
    monkeypatch.setenv("HOME", str(here))
    assert load_recipe(file, ["model.path=~/warm"]).model.path == str(here / "warm")


def test_a_recipe_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        load_recipe(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"binary\.toml: not UTF-8"):
        load_recipe(tmp_path / "binary.toml")
    with pytest.raises(ValueError, match="no such user"):
        load_recipe(None, ["tasks.train=~nosuchuser/x"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[rolout]\n", "rolout: no such key; did you mean 'rollout'?"),
        ("[rollout]\ngroup_sise = 2\n", "rollout.group_sise: no such key; did you mean 'group_size'?"),
        ("[rollout]\nzzz = 2\n", "rollout.zzz: no such key; known: group_size,"),
        (
            '[[rewards]]\nname = "outcome"\nwieght = 2\n',
            "rewards.0.wieght: no such key; did you mean",
        ),
        (
            "[rollout]\ngroup_size = 0\n",
            "rollout.group_size: Input should be greater",
        ),
        (
            '[engine]\nkind = "vlm"\n',
            "engine.kind: Input should be 'transformers', 'vllm', 'remote' or 'scripted', got 'vlm'",
        ),
        ("seed = [", "not TOML"),
    ],
)
def test_a_mistake_names_the_key_and_the_value(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the assertion checks the message)
        load_recipe(write(tmp_path, text))
    assert says in str(caught.value)
    assert "recipe.toml" in str(caught.value)


@pytest.mark.parametrize("override", ["rollout.group_size", "=3", "seed.x=3"])
def test_a_malformed_override_is_named(tmp_path: Path, override: str) -> None:
    with pytest.raises(ValueError, match=f"--set {override}"):
        load_recipe(write(tmp_path, "seed = 1\n"), [override])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"absent\.toml: no such file"):
        load_recipe(tmp_path / "absent.toml")


@pytest.mark.parametrize("preset", PRESETS)
def test_keys_of_the_recipe_override_its_preset(tmp_path: Path, preset: str) -> None:
    plain = load_recipe(write(tmp_path, f'[algorithm]\npreset = "{preset}"\n'))
    for section, keys in PRESETS[preset].items():
        given = getattr(plain, section).model_dump()
        assert {key: given[key] for key in keys if key != "kl"} == {
            key: value for key, value in keys.items() if key != "kl"
        }
    text = f'[algorithm]\npreset = "{preset}"\nadvantage = "maxrl"\nloss = "clip"\n'
    changed = load_recipe(write(tmp_path, text)).algorithm
    assert (changed.preset, changed.advantage, changed.loss) == (preset, "maxrl", "clip")
    assert changed.kl == plain.algorithm.kl, "nested sections are merged, not replaced"


def test_a_preset_can_be_chosen_on_the_command_line(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, "seed = 1\n"), ["algorithm.preset=gspo"])
    assert recipe.algorithm.loss == "gspo"


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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[algorithm.kl]\nplacement = "reward"\n', "needs a reference: set reference.kind"),
        ('[algorithm]\nloss = "gspo"\nadvantage = "turn"\n', "one ratio per sequence"),
        ('[run]\nmode = "async"\n[algorithm]\ncorrection = "none"\n', "stale samples are off-policy"),
        ('[run]\nmode = "async"\n[rollout]\nlockstep = true\n', "rollout.lockstep does not work"),
        ('[engine]\nkind = "vllm"\n[rollout]\nlockstep = true\n', "it forms its own batches"),
        (
            '[value]\ntrunk = "adapter"\n[algorithm]\nadvantage = "gae"\n[policy]\ntuning = "full"\n',
            "needs policy.tuning = 'lora'",
        ),
        ('[algorithm]\npreset = "grop"\n', "algorithm.preset: Input should be"),
    ],
)
def test_incompatible_sections_are_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        load_recipe(write(tmp_path, text))


def test_settings_that_a_run_cannot_learn_from_are_rejected() -> None:
    settings = load_recipe(None, ["rollout.temperature=0", "run.tasks_per_step=3"])
    with pytest.raises(ValueError, match=r"tasks\.train is not set"):
        settings.tasks.require_train()
    with pytest.raises(ValueError, match=r"rollout\.temperature is 0"):
        settings.rollout.require_exploration()
    with pytest.raises(ValueError, match=r"tasks\.train has 2 tasks, run\.tasks_per_step is 3"):
        settings.run.check_num_tasks(2)
    sound = load_recipe(None, ["tasks.train=some.jsonl"])
    assert sound.tasks.require_train() == Path.cwd() / "some.jsonl"
    assert sound.tasks.files == {"train": Path.cwd() / "some.jsonl"}
    sound.rollout.require_exploration()
    settings.run.check_num_tasks(3)


def test_a_resolved_recipe_can_be_changed_and_keeps_the_rest(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, '[algorithm]\npreset = "grpo"\n[run]\nnum_steps = 3\n'))
    changed = override_recipe(recipe, ["run.num_steps=9"])
    assert changed.run.num_steps == 9
    assert changed.algorithm == recipe.algorithm
    with pytest.raises(ValueError, match="did you mean 'num_steps'"):
        override_recipe(recipe, ["run.num_stepz=9"])


def test_trackers_are_named_or_given_as_blocks(tmp_path: Path) -> None:
    named = load_recipe(write(tmp_path, 'trackers = ["wandb", "tensorboard"]\n'))
    assert [tracker.kind for tracker in named.trackers] == ["wandb", "tensorboard"]
    blocks = '[[trackers]]\nkind = "wandb"\nmode = "offline"\n[[trackers]]\nkind = "my.module:Tracker"\n'
    given = load_recipe(write(tmp_path, blocks))
    assert [(tracker.kind, tracker.mode) for tracker in given.trackers] == [
        ("wandb", "offline"),
        ("my.module:Tracker", ""),
    ]
    assert override_recipe(given, ["seed=3"]).trackers == given.trackers
    assert [tracker.kind for tracker in override_recipe(given, ["trackers=trackio"]).trackers] == ["trackio"]
    assert load_recipe(None).trackers == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('trackers = ["wandbb"]', "trackers.0: kind 'wandbb' is not one of wandb, weave,"),
        ('trackers = ["wandbb"]', "did you mean 'wandb'?"),
        ('trackers = ["wandb", "wandb"]', "trackers: wandb: named more than once"),
        ("trackers = [3]", "trackers.0: Input should be"),
        (
            '[[trackers]]\nkind = "wandb"\nprojekt = "x"',
            "trackers.0.projekt: no such key; did you mean 'project'?",
        ),
        (
            '[[trackers]]\nkind = "wandb"\nmode = "of"',
            "trackers.0.mode: Input should be '', 'online' or 'offline'",
        ),
        ('[[trackers]]\nkind = "weave"\nmode = "offline"', "mode is an option of wandb, not of weave"),
        ('[[trackers]]\nkind = "tensorboard"\nproject = "x"', "not of tensorboard"),
        ('[[trackers]]\nkind = "wandb"\noptions = {a = 1}', "options are for trackers of your own"),
        (
            '[[trackers]]\nkind = "wandb"\nmax_waiting = 100',
            "max_waiting 100 has no room for the 16 episodes",
        ),
    ],
)
def test_a_mistake_in_a_tracker_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        load_recipe(write(tmp_path, text + "\n"))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "rollout.temperature=1e-320",
            "rollout.temperature: temperature must be 0 or from 0.01 to 100, not 1e-320",
        ),
        (
            "rollout.temperature=-1",
            "rollout.temperature: temperature must be 0 or from 0.01 to 100, not -1.0",
        ),
        (
            "rollout.temperature=1e300",
            "rollout.temperature: temperature must be 0 or from 0.01 to 100, not 1e+300",
        ),
        ("rollout.temperature=nan", "rollout.temperature: Input should be a finite number, got nan"),
        ("rollout.temperature=inf", "rollout.temperature: Input should be a finite number, got inf"),
        ("rollout.temperature=true", "rollout.temperature: expected a number, got true"),
        (
            "rollout.final_temperature=1e-9",
            "rollout.final_temperature: temperature must be 0 or from 0.01 to 100",
        ),
        ("rollout.final_temperature=0", "rollout.final_temperature: Input should be greater than 0, got 0"),
        ("rollout.final_temperature=true", "rollout.final_temperature: expected a number, got true"),
        (
            "evaluation.temperature=1e-320",
            "evaluation.temperature: temperature must be 0 or from 0.01 to 100",
        ),
        (
            "rollout.tokens_per_turn=0",
            "rollout.tokens_per_turn: Input should be greater than or equal to 1, got 0",
        ),
        ("rollout.group_size=true", "rollout.group_size: expected a number, got true"),
        ("rollout.seconds=inf", "rollout.seconds: Input should be a finite number, got inf"),
        (
            "engine.remote.wait_seconds=nan",
            "engine.remote.wait_seconds: Input should be a finite number, got nan",
        ),
        ("seed=9223372036854775808", "seed: Input should be less than 9223372036854775808"),
        ("seed=true", "seed: expected a number, got true"),
    ],
)
def test_a_number_that_nothing_can_compute_with_is_named_with_its_value(setting: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        load_recipe(None, [setting])


def test_a_reward_of_weight_true_and_values_nested_too_deeply_are_mistakes(tmp_path: Path) -> None:
    path = write(tmp_path, '[[rewards]]\nname = "outcome"\nweight = true\n')
    with pytest.raises(ValueError, match=r"rewards\.0\.weight: expected a number, got true"):
        load_recipe(path)
    with pytest.raises(ValueError, match="nested too deeply"):
        load_recipe(write(tmp_path, f"seed = {'[' * 5_000}{']' * 5_000}\n"))
    with pytest.raises(ValueError, match="nested too deeply"):
        load_recipe(None, [f"seed={'[' * 5_000}{']' * 5_000}"])
    long_name = "x" * 5_000
    with pytest.raises(ValueError, match=r"model\.path: .*File name too long"):
        load_recipe(write(tmp_path, f'[model]\npath = "{long_name}"\n'))
