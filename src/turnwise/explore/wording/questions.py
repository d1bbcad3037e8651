"""Questions in three frames (ask, chain, change), each in wordings that take turns over the splits."""

from collections.abc import Sequence

from turnwise.explore.algebra.query import Form

FORMS = {
    Form.NUMBER: (
        "Answer with the number only.",
        "Reply with just the number.",
        "Give me only the number.",
    ),
    Form.ROUNDED: (
        "Answer with the number only, rounded to two decimals.",
        "Round to two decimals and reply with just the number.",
        "Give me only the number, rounded to two decimals.",
    ),
    Form.TEXT: (
        "Answer with exactly that text and nothing else.",
        "Reply with just that, exactly as it is written there.",
        "Give me only that, copied exactly.",
    ),
}
DONE = "When it is done, answer with “Done.”"
_ASK = (
    "{question}",
    "Please tell me {phrase}.",
    "I need to know {phrase}.",
    "Can you find out {phrase}?",
    "I would like to know {phrase}.",
)
_CHAIN = (
    "{question}",
    "First find {first}. {then}",
    "Look up {first}. {then}",
    "Start with {first}. {then}",
    "Can you find out {phrase}?",
)
_CHANGE = (
    "Please {order}.",
    "{Order}.",
    "I need you to {order}.",
    "Can you {order}?",
    "I would like you to {order}.",
)
_NUM_TRAINING = 3


def asked(phrase: str) -> str:
    """Return the question for a noun phrase: "How many invoices are there …?"."""
    counted = phrase.removeprefix("the number of ")
    return (
        f"What is {phrase}?" if counted == phrase or len(counted) > 200 else f"How many {counted} are there?"
    )


def ask(phrase: str, form: Form) -> tuple[str, ...]:
    """Return wordings of the question for a noun phrase, those of training first."""
    frames = [frame.format(question=asked(phrase), phrase=phrase) for frame in _ASK]
    return with_form(frames, form)


def chain(phrase: str, first: str, last: str, form: Form) -> tuple[str, ...]:
    """Return wordings for a phrase that holds another: also in two sentences, `first` and then `last`."""
    values = {"question": asked(phrase), "phrase": phrase, "first": first, "then": asked(last)}
    return with_form([frame.format_map(values) for frame in _CHAIN], form)


def compute(order: str, phrase: str, form: Form) -> tuple[str, ...]:
    """Return wordings for a computation: what is to be done, and what of its result is asked."""
    frames = (
        f"{order[0].upper()}{order[1:]}. {asked(phrase)}",
        f"Please {order}. {asked(phrase)}",
        f"I need you to {order}. {asked(phrase)}",
        f"Can you {order}? {asked(phrase)}",
        f"I would like you to {order}. {asked(phrase)}",
    )
    return with_form(frames, form)


def change(orders: Sequence[str]) -> tuple[str, ...]:
    """Return wordings of a request for changes, one after another."""
    order = ", and then ".join([", then ".join(orders[:-1]), orders[-1]]) if len(orders) > 1 else orders[0]
    named = {"order": order, "Order": f"{order[0].upper()}{order[1:]}"}
    return tuple(f"{frame.format_map(named)} {DONE}" for frame in _CHANGE)


def with_form(sentences: Sequence[str], form: Form) -> tuple[str, ...]:
    """Return the sentences, each with one that asks for this form of the answer."""
    said = FORMS[form]
    return tuple(f"{sentence} {said[place % len(said)]}" for place, sentence in enumerate(sentences))


def wordings_for(split: str, wordings: Sequence[str]) -> tuple[str, ...]:
    """Return one split's wordings: the last is for test, the one before for validation."""
    return {
        "train": tuple(wordings[:_NUM_TRAINING]),
        "validation": tuple(wordings[-2:-1]),
        "test": tuple(wordings[-1:]),
    }[split]
