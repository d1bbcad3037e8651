"""Have a language model reword questions; keep a rewording only if a solver still reaches the answer."""

import asyncio
import glob
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from turnwise.explore.first.rewording import Question, question_of, why_refused
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.rewards.outcome import is_success
from turnwise.rollout.players.endpoint import endpoint_player
from turnwise.rollout.players.openai import ChatMessage, OpenAIEndpoint
from turnwise.rollout.players.policy import EpisodeLimits
from turnwise.system.environment import environment
from turnwise.types import Message, Task, Tool
from turnwise.types.protocols import EngineDown, RewardDown

_NUM_PARALLEL = 4
_PROGRESS_EVERY = 20
"""Questions between two lines of progress."""
_MAX_TOKENS = 400
_SYSTEM = (
    "You solve tasks with the tools that you are given. Call tools until you know the answer, "
    "then answer in the form that the task asks for."
)
_REWORD = (
    "Reword the user's request as a person would say it to an assistant. Keep its meaning exactly. Keep "
    "every name, number, path and quoted text literally, with its quotes. Do not answer it, do not mention "
    "tools that it does not mention, and add nothing. Reply with the reworded request only."
)

KEPT = "kept"
ENDPOINT_FAILED = "the endpoint failed"
SERVER_FAILED = "a server failed while it was solved"
UNSOLVED = "a solver does not reach the answer"


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model behind an OpenAI-compatible endpoint. Its key is read from OPENAI_API_KEY."""

    base_url: str
    model: str

    def check(self) -> None:
        """Raise ValueError if the address cannot be that of an endpoint."""
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"paraphrase: {self.base_url}: must begin with http:// or https://")

    def opened(self) -> OpenAIEndpoint:
        return OpenAIEndpoint(self.base_url, self.model, key=environment().get("OPENAI_API_KEY", "").strip())


class Paraphraser:
    """Rewords questions with an endpoint, which also plays the reworded tasks with the real tools."""

    def __init__(self, endpoint: OpenAIEndpoint, pool: Pool, allowed: Sequence[Tool]) -> None:
        """allowed: the tools that may be called; others could change real data."""
        self._endpoint = endpoint
        self._pool = pool
        self._allowed = [glob.escape(tool.name) for tool in allowed]
        self._play = endpoint_player(endpoint, EpisodeLimits(), 0.0, _SYSTEM)
        self._slots = asyncio.Semaphore(_NUM_PARALLEL)
        self._why_down = ""
        self.outcomes: Counter[str] = Counter()

    async def paraphrase(
        self,
        tasks: Sequence[Task],
        seed: int,
        on_reworded: Callable[[Task], None],
        on_progress: Callable[[str], None],
    ) -> None:
        """Try one rewording of every task, and report those that are kept."""

        async def one(task: Task) -> None:
            async with self._slots:
                outcome, reworded = await self._outcome(task, seed)
            self.outcomes[outcome] += 1
            if outcome == KEPT:
                on_reworded(reworded)
            if self.outcomes.total() % _PROGRESS_EVERY == 0:
                on_progress(f"paraphrase: {self.outcomes.total()} of {len(tasks)} questions tried")

        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(one(task))
        why = f"; {ENDPOINT_FAILED}: {self._why_down}" if self._why_down else ""
        on_progress(f"paraphrase: {self.outcomes[KEPT]} of {len(tasks)} questions reworded{why}")

    async def _outcome(self, task: Task, seed: int) -> tuple[str, Task]:
        if self._why_down:
            return ENDPOINT_FAILED, task
        try:
            return await self._reworded(task, seed)
        except (EngineDown, ValueError) as error:  # ValueError: the endpoint refuses the request
            self._why_down = str(error).partition("\n")[0][:200]
            return ENDPOINT_FAILED, task

    async def _reworded(self, task: Task, seed: int) -> tuple[str, Task]:
        question = question_of(task)
        if question is None:
            return "the form of its answer cannot be kept apart", task
        body = await self._ask(question, seed)
        if why := why_refused(body, question, task):
            return why, task
        prompt = (*task.prompt[:-1], Message("user", f"{body}{question.rest}"))
        reworded = replace(task, prompt=prompt)
        outcome = await self._played(reworded, seed)
        return outcome, reworded if outcome == KEPT else task

    async def _ask(self, question: Question, seed: int) -> str:
        messages = [ChatMessage("system", _REWORD), ChatMessage("user", question.body)]
        reply = await self._endpoint.chat(messages, max_tokens=_MAX_TOKENS, temperature=0.7, seed=seed)
        return reply.parsed.text.strip()

    async def _played(self, task: Task, seed: int) -> str:
        episode_id = f"paraphrase/{task.id}"
        try:
            async with self._pool.lease(task.servers, episode_id, allow=self._allowed) as toolbox:
                trajectory = await self._play(task, toolbox, episode_id, seed, ())
        except (ConnectFailed, RewardDown):
            return SERVER_FAILED
        if trajectory.stop.is_infrastructure:
            return SERVER_FAILED
        return KEPT if is_success(trajectory) else UNSOLVED
