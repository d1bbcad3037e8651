"""SkyRL's experiment with the tasks of a recipe and the generator of turnwise."""

import json
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayTaskError
from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface
from skyrl.backends.skyrl_train.inference_servers.utils import resolve_policy_model_name
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
from skyrl.train.generators.base import GeneratorInterface
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray
from transformers import AutoConfig

from turnwise.config import Recipe
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.rewards import check_scorable, parts_of
from turnwise.rollout.collector import CollectionFailed
from turnwise.run.skyrl.generator import TurnwiseGenerator
from turnwise.run.skyrl.placement import move_registries, this_node
from turnwise.run.skyrl.player import Player, Players
from turnwise.run.skyrl.translation import Translation
from turnwise.run.skyrl.workers import Workers
from turnwise.tasks.load import load
from turnwise.tasks.rows import row_of
from turnwise.tasks.selection import across_families
from turnwise.types import Task


class TaskDataset:
    """Tasks in the format of SkyRL's dataloader; the episode renders the prompt itself."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, place: int) -> dict[str, Any]:
        task = self._tasks[place]
        messages = [{"role": message.role, "content": message.content} for message in task.prompt]
        # as JSON: SkyRL writes these columns to the files of an evaluation
        extras = {"task": json.dumps(row_of(task)), "data_source": task.family or "tasks"}
        return {"prompt": messages, "env_class": None, "env_extras": extras, "uid": task.id}

    def collate_fn(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return items


class TurnwiseExp(BasePPOExp):
    """SkyRL's experiment with its own trainer, workers and engines."""

    def __init__(self, cfg: SkyRLTrainConfig, recipe: Recipe) -> None:
        self.recipe = recipe
        super().__init__(cfg)

    def get_train_dataset(self) -> TaskDataset:
        return TaskDataset(train_tasks(self.recipe))

    def get_eval_dataset(self) -> TaskDataset | None:
        if self.cfg.trainer.eval_interval <= 0 or self.recipe.tasks.validation is None:
            return None
        return TaskDataset(
            across_families(load(self.recipe.tasks.validation), self.recipe.evaluation.num_tasks)
        )

    def get_generator(
        self, cfg: SkyRLTrainConfig, tokenizer: Any, inference_engine_client: InferenceEngineInterface
    ) -> GeneratorInterface:
        return new_generator(self.recipe, inference_engine_client, resolve_policy_model_name(cfg))

    def get_trainer(self, cfg: SkyRLTrainConfig, *args: Any, **kwargs: Any) -> Any:
        if cfg.trainer.fully_async.enabled:
            return FullyAsyncRayPPOTrainer(cfg, *args, **kwargs)
        return super().get_trainer(cfg, *args, **kwargs)


def new_generator(recipe: Recipe, client: InferenceEngineInterface, model: str) -> TurnwiseGenerator:
    """A generator for `get_generator` of an experiment; `model` is the name of the policy at the engines."""
    num_players = recipe.skyrl.num_players
    players: Players = (
        Workers(recipe, client, model, num_players) if num_players else Player(recipe, client, model)
    )
    chat = open_chat(load_tokenizer(recipe.model.path))
    return TurnwiseGenerator(
        players,
        train_tasks(recipe),
        seed=recipe.seed,
        blank_id=min(chat.stop_ids),
        policy_version=lambda: getattr(client, "weight_version", 0),
    )


def train_tasks(recipe: Recipe) -> tuple[Task, ...]:
    tasks = load(recipe.tasks.require_train())
    recipe.run.check_num_tasks(len(tasks))
    check_scorable(tasks, parts_of(recipe.rewards))
    return tasks


def checked_config(translation: Translation) -> SkyRLTrainConfig:
    """The config, validated by SkyRL; ValueError with SkyRL's message."""
    try:
        config = SkyRLTrainConfig.from_cli_overrides(translation.overrides)
        validate_cfg(config)
    except (AssertionError, ValueError, NotImplementedError, TypeError) as error:
        raise ValueError(f"SkyRL rejects the recipe: {error}") from None
    return config


def check_embeddings(tuning: str, config: SkyRLTrainConfig) -> None:
    """ValueError if SkyRL 0.4 would train other weights than its engines sample with.

    Its FSDP moves the model to the meta device, which separates tied embeddings, and trains both. An engine
    keeps them tied and loads one of them, as does everyone who reads the export.
    """
    if tuning != "full":
        return
    path = config.trainer.policy.model.path
    if AutoConfig.from_pretrained(path).tie_word_embeddings:
        raise ValueError(
            f"policy.tuning is 'full', and the model {path!r} has tied embeddings, which SkyRL's FSDP trains "
            "apart while its engines keep them tied: set policy.tuning = 'lora', or save the model with "
            "tie_word_embeddings = false"
        )


def run_on_ray(recipe: Recipe, config: SkyRLTrainConfig) -> None:
    """Find or start Ray, and run the experiment on it; CollectionFailed if too much is lost."""
    initialize_ray(config)
    needed, available = num_gpus(config), ray.cluster_resources().get("GPU", 0)
    if available < needed:
        raise ValueError(f"[skyrl] needs {needed} GPUs, and Ray's cluster has {available:.0f}")
    registries = move_registries(this_node())
    trainer = ray.remote(num_cpus=1, scheduling_strategy=this_node())(_run)
    try:
        ray.get(trainer.remote(recipe, config))
    except RayTaskError as error:
        if isinstance(error.cause, CollectionFailed):
            raise error.cause from None  # its message has the reason; the remote traceback adds none
        raise
    finally:
        del registries


def num_gpus(config: SkyRLTrainConfig) -> int:
    """The number of training and sampling GPUs, which are the same GPUs if colocated."""
    placement, engines = config.trainer.placement, config.generator.inference_engine
    training: int = placement.policy_num_nodes * placement.policy_num_gpus_per_node
    sampling: int = engines.num_engines * engines.tensor_parallel_size
    return training if placement.colocate_all else training + sampling


def _run(recipe: Recipe, config: SkyRLTrainConfig) -> None:
    TurnwiseExp(config, recipe).run()
