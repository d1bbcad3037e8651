"""Resources and prompts of a server give values for its tools."""

from pathlib import Path

from tests.explore.exploring import specs_of
from turnwise.explore.survey.sources import offered_values
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
    values = set(offered_values(offerings))
    assert ("resource uri", "library://catalogue") in values
    assert ("resource uri", "library://shelves/{room}") not in values


def test_help_of_prompts_gives_examples() -> None:
    prompt = ServerPrompt("forecast", "", (PromptParameter("city", "A city, e.g. 'Lisbon'"),))
    assert list(offered_values(Offerings(prompts=(prompt,)))) == [("city", "Lisbon")]
