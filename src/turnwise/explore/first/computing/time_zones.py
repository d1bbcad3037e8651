"""Times in other zones: a tool that takes a time, a zone to convert from and a zone to convert to."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turnwise.explore.first.answers import answer_of_value
from turnwise.explore.first.caller import Session
from turnwise.explore.first.computing.conversions import FROM_WORDS, TO_WORDS
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.name_words import name_words
from turnwise.explore.first.query import Form
from turnwise.explore.first.wording.questions import with_form
from turnwise.explore.first.wording.word_set import word_set
from turnwise.explore.survey.parameters import Kind, parameters_of
from turnwise.tasks.proof.case import Case, Conclusion, Results, call
from turnwise.types import Difficulty, Tool

MAX_DRAWN = 80
"""Conversions that are tried with one tool."""

_PLACES = {
    "Africa/Johannesburg": "Johannesburg",
    "Africa/Lagos": "Lagos",
    "Africa/Nairobi": "Nairobi",
    "America/Bogota": "Bogotá",
    "America/Lima": "Lima",
    "America/Phoenix": "Phoenix",
    "Asia/Bangkok": "Bangkok",
    "Asia/Dhaka": "Dhaka",
    "Asia/Dubai": "Dubai",
    "Asia/Kathmandu": "Kathmandu",
    "Asia/Kolkata": "Kolkata",
    "Asia/Shanghai": "Shanghai",
    "Asia/Singapore": "Singapore",
    "Asia/Tokyo": "Tokyo",
    "Atlantic/Reykjavik": "Reykjavik",
    "Australia/Brisbane": "Brisbane",
    "Pacific/Honolulu": "Honolulu",
}
"""Zones without summer time: a time of day there is the same elsewhere on every day."""
_DAY = datetime(2024, 5, 14)  # a zone is given to it below
_STYLES = ("{time}", f"{_DAY:%Y-%m-%d} {{time}}:00", f"{_DAY:%Y-%m-%d}T{{time}}:00")
"""How tools want a time to be written; the first one that is answered well is used."""
_ZONE = word_set("zone timezone tz")
_MINUTES = (25, 35, 40, 50, 70, 95, 105, 130, 145, 200)


@dataclass(frozen=True, slots=True)
class TimeConverter:
    """A tool that converts times, with the names of its parameters."""

    tool: Tool
    time: str
    source: str
    target: str

    def arguments(self, time: str, source: str, target: str) -> dict[str, object]:
        return {self.time: time, self.source: source, self.target: target}


def time_converter_of(tool: Tool) -> TimeConverter | None:
    """Return the converter that a tool is, if it needs a time, a zone from and a zone to and nothing else."""
    required = [one for one in parameters_of(tool) if one.is_required]
    zones = [one.name for one in required if _ZONE.intersection(name_words(one.name))]
    times = [one.name for one in required if one.name not in zones and "time" in name_words(one.name)]
    source = [name for name in zones if FROM_WORDS.intersection(name_words(name))]
    target = [name for name in zones if TO_WORDS.intersection(name_words(name))]
    is_whole = len(required) == 3 and all(one.kind is Kind.TEXT and not one.enum for one in required)
    if not is_whole or (len(times), len(source), len(target)) != (1, 1, 1):
        return None
    return TimeConverter(tool, times[0], source[0], target[0])


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time at one place, some minutes later, seen from another place."""

    time: str
    source: str
    target: str
    minutes: int

    def there(self, *, is_later: bool = False) -> str:
        """Return the time of day at the other place."""
        hour, minute = map(int, self.time.split(":"))
        moment = _DAY.replace(hour=hour, minute=minute, tzinfo=ZoneInfo(self.source))
        moment += timedelta(minutes=self.minutes if is_later else 0)
        return f"{moment.astimezone(ZoneInfo(self.target)):%H:%M}"


async def time_conversions(
    converter: TimeConverter, session: Session, chance: random.Random, max_calls: int
) -> list[Draft]:
    """Try drawn times; return questions about those whose answer states the right time."""
    zones = [name for name in _PLACES if _is_steady(name)]
    drafts: list[Draft] = []
    styles = list(_STYLES)
    for number in range(min(MAX_DRAWN, max_calls)):
        if session.is_spent or not styles or len(zones) < 2:
            break
        source, target = chance.sample(zones, 2)
        time = f"{int(chance.random() * 24):02}:{5 * int(chance.random() * 12):02}"
        minutes = _MINUTES[int(chance.random() * len(_MINUTES))] if number % 3 == 2 else 0
        moment = _Moment(time, source, target, minutes)
        arguments = converter.arguments(styles[0].format(time=time), source, target)
        reply = await session.call(converter.tool, arguments)
        is_right = reply.document is not None and moment.there() in reply.document.text
        if not is_right and not drafts:
            styles.pop(0)
        elif is_right and moment.there() != time:
            drafts.append(_draft(converter.tool, arguments, moment))
    return drafts


def _is_steady(zone: str) -> bool:
    """Return whether a zone has the same offset in all months, as this machine knows it."""
    try:
        known = ZoneInfo(zone)
    except ZoneInfoNotFoundError:
        return False
    year = datetime.now(known).year
    months = [datetime(year, month, 1, tzinfo=known) for month in range(1, 13)]
    return len({month.utcoffset() for month in [_DAY.replace(tzinfo=known), *months]}) == 1


def _draft(tool: Tool, arguments: dict[str, object], moment: _Moment) -> Draft:
    def conclude(results: Results) -> Conclusion:
        if moment.there() not in str(results[-1]):
            raise ValueError("the answer does not state the time")
        return Conclusion(*answer_of_value(moment.there(is_later=True), Form.TIME))

    shape = "time_after" if moment.minutes else "convert_time"
    wordings = _later(tool, moment) if moment.minutes else _same(tool, moment)
    return Draft(
        shape=shape,
        case=Case({}, "", ((call(tool.name, **arguments),),), conclude),
        questions=with_form(wordings, Form.TIME),
        tools=(tool.name,),
        servers=(tool.server,),
        entities=(str(moment),),
        difficulty=Difficulty.MEDIUM if moment.minutes else Difficulty.EASY,
        key=f"{shape} {tool.name} {moment}",
    )


def _same(tool: Tool, moment: _Moment) -> tuple[str, ...]:
    time, here, there = moment.time, _PLACES[moment.source], _PLACES[moment.target]
    return (
        f"Use `{tool.name}` to convert {time} from {moment.source} to {moment.target}.",
        f"What time is it in {there} when it is {time} in {here}? Use `{tool.name}`.",
        f"When it is {time} in {here}, what time is it in {there}?",
        f"It is {time} in {here}. What is the time in {there}?",
        f"A talk in {here} begins at {time} there. When does it begin, in {there} time?",
        f"I am in {there}. What time will it be here when it is {time} in {here}?",
        f"Please tell me the time in {there} at {time} in {here}.",
        f"A colleague in {here} calls at {time} local time. What time is that in {there}?",
    )


def _later(tool: Tool, moment: _Moment) -> tuple[str, ...]:
    time, here, there = moment.time, _PLACES[moment.source], _PLACES[moment.target]
    minutes = f"{moment.minutes} minutes"
    meeting = f"A meeting begins at {time} in {here} and lasts {minutes}."
    return (
        f"Use `{tool.name}` to convert {time} from {moment.source} to {moment.target}, and add {minutes}.",
        f"{meeting} What time is it in {there} when it ends? Use `{tool.name}`.",
        f"{meeting} What time is it in {there} when it ends?",
        f"What time is it in {there}, {minutes} after {time} in {here}?",
        f"A film starts at {time} in {here} and takes {minutes}. What is the time in {there} at its end?",
        f"I call somebody in {here} at {time} their time, for {minutes}. What time is it then in {there}?",
        f"Please tell me the time in {there} {minutes} after it was {time} in {here}.",
        f"A download begins at {time} in {here} and needs {minutes}. At what time in {there} is it done?",
    )
