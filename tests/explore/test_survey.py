"""A survey of a server whose tools mislead, and of one whose tools only read."""

import asyncio
import sys
from pathlib import Path

import pytest

from turnwise.explore.records import Survey
from turnwise.explore.survey.surveying import SurveyOptions, survey
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec

HERE = Path(__file__).parent


async def surveyed(name: str) -> Survey:
    arguments = ("-I", str(HERE / "light_sdk.py"), str(HERE / "servers" / f"{name}.py"))
    specs = [ServerSpec(name=name, command=sys.executable, args=arguments)]
    async with Pool(specs) as pool:
        assert not await pool.connect()
        return await survey(pool, specs, SurveyOptions(seconds=200), lambda _: None)


@pytest.fixture(scope="module")
def board() -> Survey:
    return asyncio.run(surveyed("board"))


@pytest.fixture(scope="module")
def shop() -> Survey:
    return asyncio.run(surveyed("shop"))


def test_what_changes_something_is_a_writer_although_it_answers_with_rows(board: Survey) -> None:
    assert board.tools["ensure_card"].role == "writer"
    assert {"list_cards", "get_card"} <= {facts.tool.name for facts in board.readers()}
    assert "ensure_card" not in {probe.tool for change in board.changes for probe in change.probes}


def test_a_log_of_calls_is_no_fact_and_makes_no_reader_a_writer(board: Survey) -> None:
    assert not board.tools["recent_calls"].answers
    assert {change.call.tool for change in board.changes} == {"ensure_card"}


def test_clocks_are_left_out_of_answers(board: Survey) -> None:
    answers = board.tools["get_card"].answers
    columns = {column.name for answer in answers for one in answer.relations for column in one.columns}
    assert "points" in columns
    assert "read_at" not in columns


def test_a_list_that_hides_things_is_not_complete(board: Survey) -> None:
    by_key = {answer.call.key: answer for answer in board.tools["list_cards"].answers}
    whole = [by_key[key].call.arguments for key, _ in board.complete if key in by_key]
    assert {"include_done": True} in whole
    assert {} not in whole


def test_a_tool_that_an_error_names_is_called_before(board: Survey) -> None:
    assert board.tools["count_points"].role == "reader"
    [before] = board.tools["count_points"].preludes.values()
    assert before[-1].tool == "open_board"


def test_parameters_take_the_columns_whose_rows_agree(shop: Survey) -> None:
    keys = {(link.tool, link.parameter): link for link in shop.links if link.kind == "key"}
    wanted = {"get_customer": "customer_id", "get_order": "order_id", "get_product": "product_id"}
    for tool, parameter in wanted.items():
        assert parameter in {place.column for place in keys[tool, parameter].columns}
    assert all(facts.role == "reader" for facts in shop.tools.values())
    assert not shop.changes


@pytest.fixture(scope="module")
def shelf() -> Survey:
    return asyncio.run(surveyed("shelf"))


def test_what_only_undoes_a_change_is_a_writer(shelf: Survey) -> None:
    assert shelf.tools["unstage_pages"].role == "writer"
    [undone, *_] = [change for change in shelf.changes if change.call.tool == "unstage_pages"]
    assert [call.tool for call in undone.prelude] == ["stage_page"]


def test_long_codes_that_are_all_accepted_are_what_a_parameter_takes(shelf: Survey) -> None:
    [link] = [link for link in shelf.links if (link.tool, link.parameter) == ("pages_since", "target")]
    assert [place.column for place in link.columns] == ["version"]


def test_readers_are_called_with_all_values_of_their_links(shelf: Survey) -> None:
    asked = {answer.call.arguments["target"] for answer in shelf.tools["pages_since"].answers}
    assert len(asked) == 9  # nothing came after the last one


def test_an_answer_that_holds_only_today_is_left_out(shelf: Survey) -> None:
    answers = shelf.tools["days_in_month"].answers
    assert answers
    assert all("date" in answer.call.arguments for answer in answers)
    assert {} in [answer.call.arguments for answer in shelf.tools["list_versions"].answers]
