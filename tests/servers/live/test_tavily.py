"""Tavily's live backend against a server that answers as the search API is documented to."""

import pytest

from tests.servers.live.play import KEY, ask
from tests.servers.provider import Answer, LoopbackProvider
from turnwise.mcp.serve import ToolError, Unavailable

FOUND = {
    "query": "Who is Leo Messi?",
    "answer": "Lionel Messi is an Argentine footballer.",
    "images": [],
    "results": [
        {
            "title": "Lionel Messi Facts | Britannica",
            "url": "https://www.britannica.com/facts/Lionel-Messi",
            "content": "Lionel Messi, an Argentine footballer.",
            "score": 0.81025416,
            "raw_content": None,
            "favicon": "https://britannica.com/favicon.png",
        },
        {"title": "Two", "url": "https://two.example", "content": "2", "score": 0.5},
    ],
    "response_time": 1.67,
    "request_id": "123e4567",
}


def test_a_search_gives_ranked_results(provider: LoopbackProvider) -> None:
    provider.play("search", Answer(FOUND))
    answer = ask(provider, "tavily_search", {"query": "Who is Leo Messi?", "max_results": 1})
    assert answer == {
        "query": "Who is Leo Messi?",
        "results": [
            {
                "title": "Lionel Messi Facts | Britannica",
                "url": "https://www.britannica.com/facts/Lionel-Messi",
                "content": "Lionel Messi, an Argentine footballer.",
                "score": 0.81025416,
            }
        ],
    }
    (seen,) = provider.requests
    assert seen.body == {"query": "Who is Leo Messi?", "max_results": 1, "search_depth": "basic"}
    assert seen.headers["authorization"] == f"Bearer {KEY}"


def test_a_question_gets_one_answer(provider: LoopbackProvider) -> None:
    provider.play("search", Answer(FOUND))
    answer = ask(provider, "tavily_qna_search", {"query": "Who is Leo Messi?"})
    assert answer == {"query": "Who is Leo Messi?", "answer": "Lionel Messi is an Argentine footballer."}
    assert provider.requests[0].body["include_answer"] is True


@pytest.mark.parametrize("answer", [None, ""])
def test_a_question_without_an_answer_says_so(provider: LoopbackProvider, answer: str | None) -> None:
    provider.play("search", Answer(FOUND | {"answer": answer}))
    assert ask(provider, "tavily_qna_search", {"query": "x"})["answer"].startswith("No answer was found")


@pytest.mark.parametrize(
    "wrong", [{"query": " "}, {"query": "x" * 401}, {"max_results": 0}, {"search_depth": "deep"}]
)
def test_wrong_arguments_never_leave_the_machine(
    provider: LoopbackProvider, wrong: dict[str, object]
) -> None:
    with pytest.raises(ToolError):
        ask(provider, "tavily_search", {"query": "x"} | wrong)
    assert provider.requests == []


def test_a_rejected_query_is_the_models_mistake(provider: LoopbackProvider) -> None:
    provider.play("search", Answer({"detail": {"error": "Query is too long."}}, 400))
    with pytest.raises(ToolError, match="Query is too long"):
        ask(provider, "tavily_search", {"query": "x"})


def test_a_validation_error_is_the_models_mistake(provider: LoopbackProvider) -> None:
    body = {"detail": [{"loc": ["body", "query"], "msg": "field required", "type": "missing"}]}
    provider.play("search", Answer(body, 422))
    with pytest.raises(ToolError, match="field required"):
        ask(provider, "tavily_search", {"query": "x"})


@pytest.mark.parametrize("status", [432, 433])
def test_a_spent_plan_is_not_tried_again(provider: LoopbackProvider, status: int) -> None:
    provider.play("search", Answer({"detail": {"error": "This request exceeds your plan's limit."}}, status))
    with pytest.raises(Unavailable, match="exceeds your plan"):
        ask(provider, "tavily_search", {"query": "x"})
    assert len(provider.requests) == 1


def test_a_query_with_a_lone_surrogate_is_sent_as_text(provider: LoopbackProvider) -> None:
    provider.play("search", Answer(FOUND))
    assert ask(provider, "tavily_search", {"query": "a\ud800b"})["query"] == "a?b"


def test_a_lone_surrogate_in_a_result_is_made_text(provider: LoopbackProvider) -> None:
    result = b'{"results":[{"title":"a\\ud800b","url":"https://x.example","content":null,"score":1}]}'
    provider.play("search", Answer(result))
    (row,) = ask(provider, "tavily_search", {"query": "x"})["results"]
    assert row["title"] == "a?b"
