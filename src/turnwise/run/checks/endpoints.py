"""Ask each judge and the model that plays users one short question, if they are behind endpoints."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from turnwise.config import RewardConfig, UserConfig
from turnwise.rewards.judge import Judge
from turnwise.run.checks.findings import Finding, FindingLevel
from turnwise.run.checks.machine import has_model_packages
from turnwise.system.net.chat_endpoint import EndpointPatience
from turnwise.types import Message
from turnwise.types.protocols import RewardDown, UserDown

PATIENCE = EndpointPatience(num_attempts=1, attempt_seconds=60.0, total_seconds=60.0, backoff_seconds=0.0)
_QUESTION = Message("user", "Say hello.")
_RUBRIC = "The answer is a greeting."


async def check_endpoints(
    rewards: Iterable[RewardConfig], user: UserConfig, *, is_replayed: bool
) -> AsyncIterator[Finding]:
    """Check all endpoints that a recipe's episodes ask.

    A replayed cassette asks no user, and without the packages of the extra `train` nobody can.
    """
    for part in rewards:
        if part.name == "judge":
            yield await _check_judge(part.options)
    if user.url and not is_replayed and has_model_packages():
        yield await _check_user(user)


async def _check_judge(options: Mapping[str, Any]) -> Finding:
    """Ask a judge for a verdict on a greeting."""
    try:
        judge = Judge(**{**options, "patience": PATIENCE})
    except (ValueError, TypeError) as error:
        return Finding("judge", FindingLevel.BAD, str(error), "mend the options of the reward `judge`")
    try:
        await judge.try_out(_RUBRIC, [{"role": _QUESTION.role, "content": _QUESTION.content}])
    except RewardDown as error:
        advice = "see whether its model, base_url and key are right: episodes it cannot score are dropped"
        return Finding("judge", FindingLevel.BAD, str(error), advice)
    finally:
        await judge.close()
    return Finding("judge", FindingLevel.GOOD, f"{options['model']} gave a verdict")


async def _check_user(user: UserConfig) -> Finding:
    """Ask the model that plays users for a reply."""
    from turnwise.rollout.users.user_samplers import EndpointSampler
    from turnwise.setup.user_model import account_of

    try:
        sampler = EndpointSampler(account_of(user), PATIENCE)
    except ValueError as error:
        return Finding("user", FindingLevel.BAD, str(error), "mend the section [user] of the recipe")
    try:
        await sampler.sample([_QUESTION], 0)
    except UserDown as error:
        advice = "see whether user.url, user.model and the key are right: episodes without a user are dropped"
        return Finding("user", FindingLevel.BAD, str(error), advice)
    finally:
        await sampler.close()
    return Finding("user", FindingLevel.GOOD, f"{user.model} replied at {user.url}")
