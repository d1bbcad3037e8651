"""The Slack workspace that every episode starts from: channels, members and messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.data.sessions import NEW_YORK, SESSIONS
from turnwise.worlds.market.data.tables import table_of, words
from turnwise.worlds.stream import Stream

NUM_DAYS = 10
"""The history covers this many of the last sessions."""

ID_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True, slots=True)
class WorkspaceMember:
    """A person or bot of the workspace."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Channel:
    """A public channel."""

    id: str
    name: str
    topic: str
    member_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """A post; `ts` is a Slack timestamp: seconds since 1970 and a serial number, as text."""

    channel_id: str
    user_id: str
    text: str
    ts: str


@dataclass(frozen=True, slots=True)
class Workspace:
    """The template that every episode starts from; the model posts as `bot`."""

    bot: WorkspaceMember
    members: Sequence[WorkspaceMember]
    channels: Sequence[Channel]
    messages: Sequence[SlackMessage]


def make_workspace(market: Market) -> Workspace:
    """Generate the workspace from the market's seed; what messages say about prices is true."""
    stream = Stream(market.seed, "slack")
    members = [WorkspaceMember(_id("U", stream), name) for name in words("members")]
    channels = [
        Channel(_id("C", stream), name, topic, tuple(member.id for member in _some(members, name, stream)))
        for name, topic in table_of("channels").items()
    ]
    bot = WorkspaceMember(_id("U", stream), "turnwise")
    messages = [message for channel in channels for message in _history(market, channel, stream)]
    return Workspace(bot, members, channels, messages)


def _id(kind: str, stream: Stream) -> str:
    return f"{kind}0" + "".join(stream.pick(ID_LETTERS) for _ in range(9))


def _some(members: Sequence[WorkspaceMember], channel: str, stream: Stream) -> Sequence[WorkspaceMember]:
    everyone = channel in ("general", "announcements")
    return members if everyone else stream.shuffled(members)[: stream.integer(4, 9)]


def _history(market: Market, channel: Channel, stream: Stream) -> Iterator[SlackMessage]:
    """Yield one to three messages per session, each later than the one before."""
    serial = 0
    for day in SESSIONS[-NUM_DAYS:]:
        at = datetime.combine(day, time(9, 0), NEW_YORK)
        for _ in range(stream.integer(1, 3)):
            at += timedelta(seconds=stream.integer(600, 8000))
            serial += 1
            text = _text(market, channel.name, at, stream)
            yield SlackMessage(channel.id, stream.pick(channel.member_ids), text, stamp(at, serial))


def stamp(at: datetime, serial: int) -> str:
    """Return a Slack timestamp, which sorts as text in the order of time."""
    return f"{int(at.timestamp())}.{serial:06d}"


def _text(market: Market, channel: str, at: datetime, stream: Stream) -> str:
    company = stream.pick(market.companies())
    # Before the close, only the previous session is known.
    quote = market.quote(company.symbol, SESSIONS[SESSIONS.index(at.date()) - 1])
    match channel:
        case "trading":
            return (
                f"{company.symbol} closed the last session at ${quote.price:.2f} ({quote.change_percent:+}%)."
            )
        case "alerts":
            return f"ALERT {company.symbol}: {quote.change_percent:+}% to ${quote.price:.2f}"
        case "research":
            return f"Note on {company.name} ({company.symbol}): {company.description}"
        case "earnings":
            return _results(market, company)
        case "random":
            return stream.pick(words("small_talk"))
        case _:
            return stream.pick(words("office_talk"))


def _results(market: Market, company: Company) -> str:
    last = market.quarters(company.symbol)[0]
    return f"{company.symbol} Q1 2026: revenue ${last.revenue:,}, EPS {last.eps:.2f}."
