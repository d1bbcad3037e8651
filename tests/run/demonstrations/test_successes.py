"""Rejection sampling: the successes of a run, token for token, whatever else its folder holds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rollout.stage import small_chat, task
from tests.setup.resolved import resolved
from tests.shown import recipe_in, sound_setup
from tests.test_cli import one_line, turnwise
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter
from turnwise.run.demonstrations.successes import Successes, successes_of
from turnwise.run.demonstrations.warm_up import METRICS, warm_up
from turnwise.types import Completion, Finish, Parsed, Reward, Stop, Trajectory, Truth, Turn

CHAT = small_chat()
QUICK = ("policy.tuning=full", "sft.learning_rate=1e-2", "sft.num_epochs=20")


def episode(
    name: str, said: str = "done", *, words: str = "", stop: Stop = Stop.ANSWERED, number: int = 0
) -> Trajectory:
    """Two turns; a success where it says `done`. `words`, if given, are sampled in the place of `said`."""
    asked = task(name)
    prompt, first = CHAT.open(asked.prompt, ()), CHAT.say("I think.")
    again = CHAT.extend([*prompt, *first], [("", "go on")])
    last = CHAT.say(words or said)

    def turn(new_ids: tuple[int, ...], ids: tuple[int, ...], text: str) -> Turn:
        completion = Completion(ids, (-0.5,) * len(ids), Finish.STOP, 3)
        return Turn(tuple(new_ids), completion, Parsed(text=text))

    turns = (turn(prompt, first, "I think."), turn(again, last, said))
    return Trajectory(asked, f"{name}/{number}", number, turns, stop, temperature=0.7)


def write_run(folder: Path, *steps: list[Trajectory], tokenizer: str | None = None) -> Path:
    for step, episodes in enumerate(steps):
        with TrajectoryWriter(folder / "trajectories" / f"step-{step:06d}.jsonl") as writer:
            for episode in episodes:
                writer.write(StoredEpisode(episode, Reward(0.0, {}), step))
    (folder / "tokenizer.json").write_text(CHAT.tokenizer_json if tokenizer is None else tokenizer)
    return folder


def found(run: Path, samples_per_task: int = 4) -> Successes:
    return successes_of(run, CHAT.tokenizer_json, samples_per_task=samples_per_task)


def test_only_the_sampled_tokens_of_successes_are_learned_from(tmp_path: Path) -> None:
    won = episode("a")
    lost = episode("a", stop=Stop.TOOL_DOWN, number=2)
    run = write_run(tmp_path, [episode("a", "no", number=1), won, lost, episode("b", stop=Stop.TRUNCATED)])
    successes = found(run)
    assert (successes.num_episodes, successes.num_succeeded, successes.unusable) == (4, 1, ())
    [sample] = successes.samples
    assert (sample.token_ids, sample.loss_mask) == (won.token_ids, won.loss_mask)
    own = [token for token, flag in zip(sample.token_ids, sample.loss_mask, strict=True) if flag]
    assert own == [token for turn in won.turns for token in turn.completion.token_ids]
    assert sample.temperature == 1.0, "the model itself learns it, not the model at the run's temperature"


def test_repeated_tokens_of_a_task_count_once_and_its_latest_are_kept(tmp_path: Path) -> None:
    words = [f"done {'!' * number}" for number in range(1, 6)]
    first = [episode("a", words=word, number=number) for number, word in enumerate(words)]
    again = [replace(first[number], episode_id=f"a/{number + 9}") for number in (0, 3)]
    again.append(episode("b", words=words[0]))
    successes = found(write_run(tmp_path, first, again), samples_per_task=3)
    assert (successes.num_succeeded, successes.num_repeated, successes.num_over_limit) == (8, 2, 2)
    of_a = [sample.token_ids for sample in successes.samples if sample.task_id == "a"]
    assert of_a == [first[number].token_ids for number in (4, 0, 3)], "repeated ones are the latest"
    assert [sample.task_id for sample in successes.samples].count("b") == 1
    assert [sample.group for sample in successes.samples] == [0, 1, 2, 3]


def test_where_the_truth_asks_nothing_the_runs_own_reward_decides(tmp_path: Path) -> None:
    free = replace(episode("a"), task=replace(task("a"), truth=Truth()))
    other = replace(free, task=replace(free.task, id="b"))
    run = write_run(tmp_path)
    with TrajectoryWriter(run / "trajectories" / "step-000000.jsonl") as writer:
        writer.write(StoredEpisode(free, Reward(1.0, {}), 0))
        writer.write(StoredEpisode(other, Reward(0.9, {}), 0))
    assert [sample.task_id for sample in found(run).samples] == ["a"]


def test_damaged_lines_are_counted_and_named_and_the_rest_is_learned_from(tmp_path: Path) -> None:
    outside = episode("outside")
    turns = (replace(outside.turns[0], new_ids=(10**9,)), outside.turns[1])
    unprompted = replace(episode("u"), turns=(replace(outside.turns[1], new_ids=()),))
    run = write_run(tmp_path, [replace(outside, turns=turns), unprompted, episode("good")])
    file = run / "trajectories" / "step-000000.jsonl"
    record = json.loads(file.read_text().splitlines()[-1])
    short = json.loads(json.dumps(record))
    short["trajectory"]["turns"][0]["completion"]["logprobs"] = [0.0]
    unknown = {**record, "tools": "none"}
    bad = [b'{"kind": "traj', b"[1]", b"5", b"[" * 100_000, b"\xff\xfe", b'{"kind": "other"}', b"{}"]
    bad += [json.dumps(row).encode() for row in (short, unknown, {"kind": "trajectory"})]
    with file.open("ab") as more:
        more.write(b"\n".join(bad))
    successes = found(run)
    assert [sample.task_id for sample in successes.samples] == ["good"]
    assert len(successes.unusable) == len(bad) + 2
    assert "token id 1000000000 is not one of the tokenizer's" in "\n".join(successes.unusable)
    assert "step-000000.jsonl:5: " in "\n".join(successes.unusable)


def test_a_run_of_other_token_ids_or_without_successes_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [episode("a", "no")])
    with pytest.raises(ValueError, match=r"none of its episodes is a success to learn from \(1 episodes"):
        found(run)
    tokenizer = json.loads(CHAT.tokenizer_json)
    tokenizer["added_tokens"][0]["content"] = "<|another|>"
    (run / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ValueError, match=r"its token ids are of another tokenizer than that of model\.path"):
        found(run)
    for hostile in ("", "{}", "[]", '{"model": {"vocab": 5}, "added_tokens": []}', "[" * 100_000):
        (run / "tokenizer.json").write_text(hostile)
        with pytest.raises(ValueError, match=r"its tokenizer\.json cannot be read"):
            found(run)
    (run / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"it has no tokenizer\.json"):
        found(run)
    with pytest.raises(ValueError, match="not the folder of a run with episodes"):
        found(tmp_path)


async def test_successes_are_learned_without_playing_anything(tmp_path: Path) -> None:
    folder = sound_setup(tmp_path)
    unplayed = resolved(recipe_in(folder, *QUICK))
    (folder / "mcp.json").unlink()
    run = write_run(tmp_path / "run", [episode("a"), episode("a", number=1), episode("b", "no")])
    warm = await warm_up(unplayed, tmp_path / "warm", source=run)
    assert warm.num_lessons == 1
    assert warm.steps[-1].loss < warm.steps[0].loss / 3
    kept = json.loads((tmp_path / "warm" / METRICS).read_text())["from"]
    counts = {
        "num_episodes": 3,
        "num_succeeded": 2,
        "num_repeated": 1,
        "num_over_limit": 0,
        "num_unusable": 0,
    }
    assert kept == {"run": str(run), **counts}


def test_the_command_says_what_it_learned_from(tmp_path: Path) -> None:
    folder = sound_setup(tmp_path)
    write_run(folder / "run", [episode("a"), episode("a", number=1)])
    with (folder / "run/trajectories/step-000000.jsonl").open("a") as torn:
        torn.write('{"kind"')
    args = ("sft", "recipe.toml", "--from", "run", "--out", "warm", "--set", "sft.num_epochs=2")
    ran = turnwise(*args, cwd=folder)
    assert ran.code == 0, ran
    assert "left out step-000000.jsonl:4: JSONDecodeError: " in ran.out
    counts = "2 episodes, 2 succeeded, 1 repeated, 0 over the limit per task, 1 damaged"
    assert f"warm: learned from 1 successes ({counts}); 2 taken, loss " in ran.out
    refused = turnwise(*args, "--no-verify", cwd=folder)
    assert refused.code == 2
    assert "--no-verify: --from plays nothing" in one_line(refused.err)
