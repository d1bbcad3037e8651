"""Fixtures of the SkyRL tests: its client interface over the embedded model, and a real server."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface
from skyrl.train.generators.base import GeneratorInput
from skyrl.train.generators.utils import prepare_generator_input

from turnwise.config import Recipe, read_recipe
from turnwise.run.skyrl.experiment import TaskDataset
from turnwise.setup.bench import transformers_engine
from turnwise.tasks.load import load, save
from turnwise.types import FollowUp, Sampling, Task

ROOT = Path(__file__).parents[3]
TASKS = ROOT / "recipes" / "cpu" / "train.jsonl"
MODEL = "policy"
EVEN_IDS = "tests.run.own_rewards:even_ids"
"""A reward that differs between episodes."""


def write_recipe(
    folder: Path,
    num_tasks: int = 6,
    reward: str = EVEN_IDS,
    conversation: tuple[FollowUp, ...] = (),
    **rollout: Any,
) -> Recipe:
    """A recipe with the embedded model, which can call tools, and the only server of these tasks."""
    block = {"command": sys.executable, "args": ["-m", "turnwise", "serve", "fmp"]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"fmp": block}}))
    quotes = [task for task in load(TASKS) if task.family == "quote_figure"][:num_tasks]
    tools = ("fmp_get_quote", "fmp_search_ticker")
    more = {"servers": ("fmp",), "tools": tools, "conversation": conversation}
    save([replace(task, **more) for task in quotes], folder / "train.jsonl")
    settings = {
        "group_size": 2,
        "tokens_per_turn": 96,
        "tokens_per_episode": 2048,
    } | rollout
    lines = ['[tools]\nmcp = "mcp.json"', '[tasks]\ntrain = "train.jsonl"', "[rollout]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines.append(f'[[rewards]]\nname = "{reward}"')
    lines.append("[run]\ntasks_per_step = 2")
    (folder / "recipe.toml").write_text("\n".join(lines) + "\n")
    return read_recipe(folder / "recipe.toml")


def batch(tasks: Sequence[Task], group_size: int, *, phase: Any = "train", step: int = 1) -> GeneratorInput:
    """A batch as SkyRL's trainer makes it from its dataloader."""
    dataset = TaskDataset(tasks)
    items = dataset.collate_fn([dataset[place] for place in range(len(dataset))])
    params = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 96, "min_tokens": 1, "logprobs": 1}
    made, _ = prepare_generator_input(items, group_size, params, "turnwise", phase, step)
    return made


class ModelClient(InferenceEngineInterface):
    """SkyRL's client interface over a model in this process; like SkyRL's client, it can be pickled."""

    def __init__(self, recipe: Recipe, *, broken: Sequence[str] = (), seconds: float = 0.0) -> None:
        self._recipe = recipe
        self._broken = tuple(broken)
        self._seconds = seconds
        self._engine: Any = None
        self._tokenizer: Any = None
        self.sessions: list[str] = []
        self.finished: list[str] = []
        self.params: list[dict[str, Any]] = []

    def __reduce__(self) -> Any:
        return _client, (self._recipe, self._broken, self._seconds)

    @property
    def model_name(self) -> str:
        return MODEL

    async def generate(self, input_batch: Any, model: str | None = None) -> Any:
        """Sample; raises like a lost server if the prompt contains one of the broken texts."""
        assert model == MODEL
        if self._engine is None:
            from turnwise.models.chat import load_tokenizer

            self._engine = transformers_engine(self._recipe.model, self._recipe.sizes)
            self._tokenizer = load_tokenizer(self._recipe.model.path)
        [prompt_ids] = input_batch["prompt_token_ids"]
        params = input_batch["sampling_params"]
        self.params.append(params)
        self.sessions += input_batch["session_ids"]
        await asyncio.sleep(self._seconds)
        text = self._tokenizer.decode(prompt_ids)
        if any(broken in text for broken in self._broken):
            raise RuntimeError("POST failed")
        stop_ids = frozenset(params["stop_token_ids"])
        sampling = Sampling(params["max_tokens"], params["temperature"], params["top_p"], stop_ids)
        completion = await self._engine.complete(prompt_ids, sampling, params["seed"])
        return {
            "responses": [""],
            "response_ids": [list(completion.token_ids)],
            "response_logprobs": [list(completion.logprobs)],
            "stop_reasons": [str(completion.finish)],
        }

    async def finish_session(self, session_id: str) -> None:
        self.finished.append(session_id)

    async def teardown(self) -> None:
        if self._engine is not None:
            await self._engine.close()

    def get_endpoint_url(self) -> str:
        raise NotImplementedError

    async def _not_asked(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    chat_completion = render_chat_completion = completion = wake_up = sleep = _not_asked
    update_named_weights = load_lora_adapter = reset_prefix_cache = _not_asked
    pause_generation = resume_generation = get_world_size = _not_asked


def _client(recipe: Recipe, broken: Sequence[str], seconds: float) -> ModelClient:
    return ModelClient(recipe, broken=broken, seconds=seconds)
