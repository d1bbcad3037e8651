"""Explorations written by hand for the tests of the reports; one of them has hostile texts everywhere."""

from turnwise.explore.exploration import Exploration, Link, ServerFinding, ToolFinding
from turnwise.types import Cause, DemoTurn, Difficulty, Task, Tool, ToolCall, ToolResult

HOSTILE = (
    '<script>window.broken = 1</script><img src=x onerror="window.broken = 2">\'"&amp; ]]> --> </style>\n'
    "\x1b[31mred\x1b[0m \u202egnp.exe\u202c \x00 \ud800 [bold]markup[/bold] 東京都" + "x" * 300
)
"""Markup, escape sequences, direction marks, a zero byte, half a character, wide characters and length."""


def tool(server: str, name: str, **found: object) -> ToolFinding:
    facts = {"num_calls": 12, "num_answers": 10, "is_reader": True, "is_stable": True, **found}
    offered = Tool(f"{server}_{name}", "A tool.", {"type": "object"}, server, name)
    return ToolFinding(offered, **facts)  # type: ignore[arg-type]  # the test's own values


def turn(*calls: tuple[str, dict[str, object], str]) -> DemoTurn:
    return DemoTurn(
        "",
        tuple(ToolCall(str(number), name, arguments) for number, (name, arguments, _) in enumerate(calls)),
        tuple(ToolResult(str(number), text, Cause.OK, 0.1) for number, (_, _, text) in enumerate(calls)),
    )


def task(
    name: str,
    question: str,
    answer: object,
    *turns: DemoTurn,
    family: str = "lookup",
    difficulty: Difficulty = Difficulty.EASY,
    split: str = "train",
) -> Task:
    said = (*turns, DemoTurn(str(answer)))
    return Task(
        name, question, answer=answer, family=family, difficulty=difficulty, split=split, demonstration=said
    )


def shop_tasks(num: int = 40) -> tuple[Task, ...]:
    listed = turn(("shop_list_orders", {}, '[{"id": 7, "total": 12.5}]'))
    found = []
    for number in range(num):
        read = turn(("shop_get_order", {"order_id": number}, f'{{"id": {number}, "total": 12.5}}'))
        two = turn(
            ("shop_get_order", {"order_id": number}, '{"total": 12.5}'),
            ("shop_get_order", {"order_id": number + 1}, '{"total": 14.0}'),
        )
        split = ("train", "train", "validation", "test")[number % 4]
        ask = f"What is the total of order {number}? Answer with the number only."
        found += [
            task(f"lookup-{number}", ask, 12.5, read, split=split),
            task(
                f"chain-{number}",
                f"Take the newest order of customer {number}. What is its total? Answer with a number.",
                12.5,
                listed,
                read,
                family="chain",
                difficulty=Difficulty.MEDIUM,
                split=split,
            ),
            task(
                f"compare-{number}",
                f"Which order has the larger total, {number} or {number + 1}? Answer with its number.",
                number + 1,
                listed,
                two,
                family="compare",
                difficulty=Difficulty.HARD,
                split=split,
            ),
        ]
    return tuple(found)


def shop() -> Exploration:
    """A normal exploration: two servers with 14 tools, one server that did not start, 120 tasks."""
    readers = [tool("shop", name, num_tasks=40) for name in ("list_orders", "get_order")]
    keys = [tool("shop", name, num_answers=0, why_not="needs a key") for name in ("pay", "refund", "invoice")]
    odd = [
        tool("shop", "now", is_stable=False, why_not="its answers differ between sessions"),
        tool(
            "shop",
            "delete_order",
            num_calls=0,
            num_answers=0,
            why_not="it may change state: use --writes shop",
        ),
    ]
    shop_server = ServerFinding("shop", (*readers, *keys, *odd), 812, 61.5)
    notes = tuple(tool("notes", f"note_{number}", num_tasks=3) for number in range(7))
    return Exploration(
        servers=(
            shop_server,
            ServerFinding("notes", notes, 205, 12.0),
            ServerFinding("mail", (), 0, 10.0, why_not="did not start: command not found"),
        ),
        links=(
            Link("shop_get_order", "customer", "notes_note_1", "title", 4),
            Link("shop_list_orders", "id", "shop_get_order", "order_id", 40),
        ),
        tasks=shop_tasks(),
        rejections={"the answer is in the question": 31, "the answer changed": 9, "guessable": 60},
        rejected_examples={"guessable": "How many orders are open? 3 was the most common answer."},
        held_out=("shop_get_order + notes_note_1", "shop_list_orders + notes_note_2"),
        seconds=83.5,
        seed=7,
    )


def hostile(num_tools: int = 1_000) -> Exploration:
    """Hostile text in every place that a server or its answers decide, and very many tools."""
    tools = tuple(
        tool("evil", f"{number}{HOSTILE}", num_answers=number % 2, why_not=f"{number % 5} {HOSTILE}")
        for number in range(num_tools)
    )
    call = turn((HOSTILE, {HOSTILE: HOSTILE, "deep": [[[HOSTILE]]]}, HOSTILE * 1_000))
    return Exploration(
        servers=tuple(
            ServerFinding(f"{HOSTILE}{number}", tools, 3, 1.0, why_not=HOSTILE) for number in range(3)
        ),
        links=tuple(
            Link(f"a{number}{HOSTILE}", HOSTILE, f"b{number}{HOSTILE}", HOSTILE, 1) for number in range(20)
        ),
        tasks=(task(HOSTILE, HOSTILE, HOSTILE, call, family=HOSTILE, split=HOSTILE),),
        rejections={HOSTILE: 3},
        rejected_examples={HOSTILE: HOSTILE * 1_000},
        held_out=(HOSTILE,),
        seconds=1.0,
        seed=0,
        was_interrupted=True,
    )


def empty() -> Exploration:
    return Exploration((), (), (), {}, {}, (), 0.5, 0)
