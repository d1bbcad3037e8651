"""Resources and prompts of a server give values for its tools."""

from pathlib import Path

from tests.explore_first.exploring import explored, specs_of
from turnwise.explore.first.offered_values import offered_values
from turnwise.explore.first.values import Source
from turnwise.mcp.offerings import Offerings, PromptParameter, ServerPrompt
from turnwise.mcp.pool import Pool


async def test_resources_are_listed_and_texts_read(tmp_path: Path) -> None:
    async with Pool(specs_of(tmp_path, "library", "notes")) as pool:
        await pool.connect()
        offerings = await pool.offerings("library")
        assert not (await pool.offerings("notes")).resources
    texts = {resource.name: resource.text for resource in offerings.resources}
    assert set(texts) == {"catalogue", "logo", "broken", "shelves"}
    assert "QX-4471" in texts["catalogue"]
    assert texts["logo"] == texts["broken"] == texts["shelves"] == ""
    assert [prompt.parameters for prompt in offerings.prompts] == [(PromptParameter("mark"),)]
    values = {(value.name, value.value) for value in offered_values(offerings)}
    assert {("mark", "QX-4471"), ("uri", "library://catalogue")} <= values
    assert ("uri", "library://shelves/{room}") not in values


def test_help_of_prompts_gives_examples() -> None:
    prompt = ServerPrompt("forecast", "", (PromptParameter("city", "A city, e.g. 'Lisbon'"),))
    [value] = offered_values(Offerings(prompts=(prompt,)))
    assert (value.name, value.value, value.source) == ("city", "Lisbon", Source.DESCRIPTION)


async def test_a_tool_is_reached_with_what_only_a_resource_says(tmp_path: Path) -> None:
    found = await explored(tmp_path, "library", num_tasks=4)
    [server] = found.servers
    assert (server.num_resources, server.num_prompts) == (4, 1)
    [tool] = server.tools
    assert tool.num_answers
    assert tool.num_tasks
