"""One episode in full: its turns, its group and its tokens."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from turnwise.dashboard.headings import of_episode, of_group
from turnwise.dashboard.index.episodes import fault_of, messages_of, tools_of, verdicts
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.index.rows import offer
from turnwise.dashboard.views.listing import members, of_task
from turnwise.dashboard.views.malformed import place_of
from turnwise.dashboard.views.token_credit import group_advantage, traced, why_not
from turnwise.dashboard.views.token_texts import Pieces
from turnwise.records.run_facts import ShownRecipe
from turnwise.types import Tool


def conversation(index: Index, episode: int, pieces: Pieces) -> dict[str, Any]:
    """One episode with everything but its tokens. LookupError if there is no such episode."""
    record, row = _record(index, episode)
    played = record["trajectory"]
    tools, rows = _tools(index, row), group(index, episode)
    judged = [asdict(verdict) for verdict in verdicts(record, tools)]
    num_given = sum(bool(turn.get("is_given")) for turn in played["turns"])
    return {
        "id": episode,
        "heading": of_episode(row["is_success"], judged, str(played["stop"]), num_given),
        "source": row["source"],
        "step": row["step"],
        "is_success": row["is_success"],
        "reward": record["reward"],
        "task": played["task"],
        "episode": played["episode_id"],
        "seed": str(played["seed"]),  # may exceed 2**53, up to which JavaScript is exact
        "stop": played["stop"],
        "scores": played.get("scores", {}),
        "last_reply": played.get("last_reply", ""),
        "seconds": played["seconds"],
        "queue_seconds": played["queue_seconds"],
        "turns": [_turn(turn, pieces) for turn in played["turns"]],
        "probes": played["probes"],
        "losses": played["losses"],
        "messages": messages_of(record, tools),
        "verdicts": judged,
        "tools": [{"name": tool.name, "server": tool.server} for tool in tools],
        "group": rows,
        "num_members": len(rows),
        "elsewhere": of_task(index, row["task"]),
    }


def group(index: Index, episode: int) -> list[dict[str, Any]]:
    """The list rows of the episode's group, its own included."""
    ids = members(index, episode)
    marks = ", ".join("?" * len(ids))
    with index.reading() as connection:
        rows = connection.execute(
            f"SELECT id, episode, reward, is_success, stop, num_turns FROM episodes WHERE id IN ({marks})",  # noqa: S608
            ids,
        )
        return [dict(row) for row in rows]


def side_by_side(
    index: Index, episode: int, recipe: ShownRecipe, pieces: Pieces, *, limit: int = 16
) -> dict[str, Any]:
    """The task of the episode's group, and the turns and the outcome of its first `limit` members."""
    shown: list[dict[str, Any]] = []
    rows, whole = group(index, episode), members(index, episode)
    for member in whole[:limit]:
        record, row = _record(index, member)
        turns = [_turn(turn, pieces) for turn in record["trajectory"]["turns"]]
        keys = ("id", "episode", "reward", "is_success", "stop", "num_tokens", "seconds", "answer")
        shown.append(
            {
                **{key: row[key] for key in keys},
                "answer_number": row["answer_number"],
                "advantage": _advantage(index, row, record, rows, recipe),
                "verdicts": [asdict(verdict) for verdict in verdicts(record, _tools(index, row))],
                "parts": record["reward"]["parts"],
                "turns": turns,
                "last_reply": record["trajectory"].get("last_reply", ""),
            }
        )
    record, row = _record(index, episode)
    return {
        "heading": of_group([each["is_success"] for each in shown], [_done(each["turns"]) for each in shown]),
        "task": record["trajectory"]["task"],
        "source": row["source"],
        "step": row["step"],
        "num_members": len(whole),
        "members": shown,
        "elsewhere": of_task(index, row["task"]),
    }


def _done(turns: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells one turn from another: what was said and called, not what came back or how long it took."""
    return [
        json.dumps(
            [
                turn["text"],
                turn["error"] and turn["error"]["written"],
                [[call["name"], call["arguments"]] for call in turn["calls"]],
            ]
        )
        for turn in turns
    ]


def _advantage(
    index: Index,
    row: Mapping[str, Any],
    record: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    recipe: ShownRecipe,
) -> float | None:
    """The mean of the advantages that the update used, else the one that the group's rewards give."""
    if row["source"] != "train":
        return None
    lengths = [len(turn["completion"]["token_ids"]) for turn in record["trajectory"]["turns"]]
    updates = traced(index, row, lengths)
    if updates is None:
        return group_advantage(rows, row["id"], recipe)[0]
    known = [value for turn in updates for value in turn["advantages"] if value is not None]
    return sum(known) / len(known) if known else None


def tokens(index: Index, episode: int, recipe: ShownRecipe, pieces: Pieces) -> dict[str, Any]:
    """The tokens of every turn: ids, text if there is a tokenizer, log-probs, and update values if traced.

    A turn is [prompt: mask 0] [sampled: mask 1], as the trainer sees it.
    """
    record, row = _record(index, episode)
    played = record["trajectory"]["turns"]
    updates = traced(index, row, [len(turn["completion"]["token_ids"]) for turn in played])
    turns = []
    for place, turn in enumerate(played):
        sampled = turn["completion"]
        turns.append(
            {
                "prompt_ids": turn["new_ids"],
                "prompt_pieces": pieces.of(turn["new_ids"]),
                "ids": sampled["token_ids"],
                "pieces": pieces.of(sampled["token_ids"]),
                "logprobs": sampled["logprobs"],
                "finish": sampled["finish"],
                "policy_version": sampled["policy_version"],
                "update": updates[place] if updates else None,
            }
        )
    shown = {"turns": turns, "has_pieces": pieces.exist, "is_traced": updates is not None}
    if updates is not None or row["source"] != "train":
        advantage, note = None, ""
    else:
        advantage, note = group_advantage(group(index, episode), episode, recipe)
    missing = "" if updates is not None else why_not(row)
    return {**shown, "advantage": advantage, "advantage_note": note, "missing": missing}


def _record(index: Index, episode: int) -> tuple[dict[str, Any], dict[str, Any]]:
    with index.reading() as connection:
        row = connection.execute("SELECT * FROM episodes WHERE id = ?", (episode,)).fetchone()
    if row is None:
        raise LookupError(f"no episode {episode}")
    return index.line(row["file"], row["offset"], row["length"]), dict(row)


def _turn(turn: Mapping[str, Any], pieces: Pieces) -> dict[str, Any]:
    calls = [_call(number, call, turn["results"]) for number, call in enumerate(turn["parsed"]["calls"])]
    return {
        "user": turn.get("user", ""),
        "message": turn.get("message", 0),
        "is_given": turn.get("is_given", False),
        "text": turn["parsed"]["text"],
        "reasoning": turn["parsed"]["reasoning"],
        "error": _error(turn, pieces),
        "calls": calls,
        "num_prompt_tokens": len(turn["new_ids"]),
        "num_tokens": len(turn["completion"]["token_ids"]),
        "finish": turn["completion"]["finish"],
        "policy_version": turn["completion"]["policy_version"],
        "engine_seconds": turn["engine_seconds"],
        "tool_seconds": turn["tool_seconds"],
    }


def _error(turn: Mapping[str, Any], pieces: Pieces) -> dict[str, Any] | None:
    """The parser's complaint, with what was written and the place of it; `written` is None if not known."""
    error = turn["parsed"]["error"]
    if error is None:
        return None
    written = pieces.text(turn["completion"]["token_ids"])
    place = place_of(written, str(error["kind"])) if written else None
    return {"kind": error["kind"], "message": error["message"], "written": written, "place": place}


def _call(number: int, call: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One call with its result; the result is None if the episode timed out before the call returned."""
    shown = {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
    if number >= len(results):
        return {**shown, "result": None}
    return {**shown, "result": {**results[number], "fault": fault_of(str(results[number]["cause"]))}}


def _tools(index: Index, row: Mapping[str, Any]) -> Sequence[Tool]:
    with index.reading() as connection:
        offered = offer(index.line, connection, row["file"], row["digest"])
    return tools_of(offered) if offered else ()
