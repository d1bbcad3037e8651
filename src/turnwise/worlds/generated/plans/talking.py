"""Plans that depend on what is said: facts and tools that come late, second thoughts, no need to call."""

from collections.abc import Callable

from turnwise.tasks.proof.answers import computed
from turnwise.tasks.proof.case import Case, Question
from turnwise.types import Answer, UserRule
from turnwise.worlds.generated.plans import asking, changing
from turnwise.worlds.generated.plans.changing import ask_for_price
from turnwise.worlds.generated.plans.steps import (
    change,
    find,
    new_price,
    only,
    part_of_name,
    price_of,
    setter,
)
from turnwise.worlds.generated.rehearsal import Rehearsal, Unfit, answer_for
from turnwise.worlds.generated.state import Row
from turnwise.worlds.generated.vocabulary import spoken
from turnwise.worlds.stream import Stream

_ASKS = r"(?i)\?|please|tell me|provide|specify|need to know|let me know"
_IMPOSSIBLE = "impossible"
_PARTS = (asking.look_up, asking.count_listed, asking.by_flag, changing.set_price, changing.set_flag)
"""What a longer conversation is made of."""


def missing_fact(r: Rehearsal) -> None:
    """Ask for a change: on one side its value is left out, so that only the user can say it."""
    thing, price = r.world.domain.entities["thing"], price_of(r)
    row, part = part_of_name(r, thing)
    value, guessed = new_price(r, row[price.name]), new_price(r, row[price.name])
    what = spoken(price.name)
    if r.side:
        message, question = ask_for_price(r, part, value), None
    else:
        message = r.say(
            "Give the {n} {x} another {w}.",
            "The {w} of {x}, a {n} of ours, has to change. See to it.",
            n=spoken(thing.noun),
            x=part,
            w=what,
        )
        reply = r.say("{v}, please.", "It should be {v}.", "Make it {v}.", v=value)
        question = Question(f"What should the new {what} be?", UserRule(_ASKS, reply))
        if guessed == value:
            raise Unfit("the guess is right")
        r.guesses.append(_guess(r, row, part, guessed))
    message += f" Ask me if you need to know more. {only(r, f'new {what}')}"
    _set_price(r, row, part, value)
    r.finish(message, answer_for(price, value), str(value), question=question)


def _guess(r: Rehearsal, row: Row, part: str, value: float) -> Case:
    guess = Rehearsal(r.world, Stream(r.world.name, "guess"), r.side)
    _set_price(guess, row, part, value)
    guess.finish("", answer_for(price_of(r), value), str(value))
    return guess.case(is_guess=True)


def _set_price(r: Rehearsal, row: Row, part: str, value: float) -> None:
    find(r, "thing", part)
    change(r, "thing", row, price_of(r).name, value)


def missing_tool(r: Rehearsal) -> None:
    """Ask for a change whose tool is there on one side; on the other it comes later or never."""
    price = price_of(r)
    row, part = part_of_name(r, r.world.domain.entities["thing"])
    value = new_price(r, row[price.name])
    tool, what = setter(r, "thing", price.name), f"new {spoken(price.name)}"
    form = f"{only(r, what)[:-1]}, or {_IMPOSSIBLE} if no tool of yours can do it."
    message = f"{ask_for_price(r, part, value)} {form}"
    comes_later = r.stream.unit() < 0.5
    if r.side:
        _set_price(r, row, part, value)
        r.finish(message, answer_for(price, value), str(value))
        return
    r.hidden.add(tool.name)
    r.finish(message, Answer(_IMPOSSIBLE), _IMPOSSIBLE)
    if comes_later:
        _set_price(r, row, part, value)
        later = r.say("You have more tools now: try again.", "There is a tool for it now. Go on, please.")
        r.finish(f"{later} {only(r, what)}", answer_for(price, value), str(value), tools=("*",))


def told_or_asked(r: Rehearsal) -> None:
    """Speak of a change: on one side it has been made already, and there is nothing to call."""
    thing, price = r.world.domain.entities["thing"], price_of(r)
    row, part = part_of_name(r, thing)
    old, value = row[price.name], new_price(r, row[price.name])
    gap = r.derive(round(abs(value - old), 2), "difference", max(old, value), min(old, value))
    said = {"n": spoken(thing.noun), "x": part, "w": spoken(price.name), "a": old, "b": value}
    if r.side:
        message = r.say(
            "Set the {w} of the {n} {x} to {b}; so far it is {a}.",
            "The {w} of {x} ({n}) is {a}. Change it to {b}.",
            **said,
        )
        _set_price(r, row, part, value)
    else:
        message = r.say(
            "I have set the {w} of the {n} {x} to {b} myself; it was {a} before. Leave it like that.",
            "The {w} of {x} ({n}) was {a}, and I have changed it to {b} just now, so that is done.",
            **said,
        )
    message += f" By how much do the two differ? {only(r, 'number')}"
    forbidden = () if r.side else (setter(r, "thing", price.name).name,)
    r.finish(message, computed(gap), f"{gap:.2f}", forbidden=forbidden)


def part_waits(r: Rehearsal) -> None:
    """Ask for two changes, of which one must wait for its figure."""
    thing, price = r.world.domain.entities["thing"], price_of(r)
    row, part = part_of_name(r, thing)
    other, its_part = part_of_name(r, thing, lambda each: each["id"] != row["id"])
    value, its_value = new_price(r, row[price.name]), new_price(r, other[price.name])
    what = spoken(price.name)
    waits = r.say(
        "{y} needs another {w} too, but wait: I will send the figure.",
        "The {w} of {y} changes as well; I do not have the number yet, so leave it for now.",
        y=its_part,
        w=what,
    )
    form = only(r, f"{what} that you have set")
    _set_price(r, row, part, value)
    r.finish(
        f"{ask_for_price(r, part, value)} {waits} {form}",
        answer_for(price, value),
        str(value),
    )
    _set_price(r, other, its_part, its_value)
    later = r.say("Here is the other figure: {v}.", "The number has come: {v}.", "It is {v}.", v=its_value)
    r.finish(f"{later} {form}", answer_for(price, its_value), str(its_value))


def second_thoughts(r: Rehearsal) -> None:
    """Ask for a change, then for another value or to undo it."""
    thing, price = r.world.domain.entities["thing"], price_of(r)
    row, part = part_of_name(r, thing)
    old, what = row[price.name], f"new {spoken(price.name)}"
    value = new_price(r, old)
    _set_price(r, row, part, value)
    r.finish(f"{ask_for_price(r, part, value)} {only(r, what)}", answer_for(price, value), str(value))
    is_undone = r.stream.unit() < 0.5
    if is_undone:
        last = old
        message = r.say(
            "Undo that, please.",
            "That was wrong: put it back to what it was.",
            "On second thoughts, leave it as it was before.",
        )
    else:
        last = new_price(r, value)
        message = r.say("Sorry, I meant {v}.", "No, make that {v}.", "My mistake: {v} is right.", v=last)
    change(r, "thing", row, price.name, last)
    r.finish(f"{message} {only(r, what)}", answer_for(price, last), str(last))


def several_requests(num: int) -> Callable[[Rehearsal], None]:
    """Return a plan for this many requests one after the other, each in a separate message."""

    def rehearse(r: Rehearsal) -> None:
        for _ in range(num):
            r.stream.pick(_PARTS)(r)

    return rehearse
