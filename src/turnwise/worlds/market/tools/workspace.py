"""The Slack workspace that every episode starts from: channels, members and messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.data.sessions import NEW_YORK, SESSIONS
from turnwise.worlds.market.data.stream import Stream

NUM_DAYS = 10
"""The history covers this many of the last sessions."""

ID_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

TOPICS = (
    ("general", "Company-wide news and questions"),
    ("announcements", "Read this one: decisions and dates"),
    ("trading", "Prices, fills and ideas for the day"),
    ("research", "Notes on companies and sectors"),
    ("earnings", "Results as they come in"),
    ("market-data", "Feeds, vendors and data quality"),
    ("alerts", "Automatic price alerts"),
    ("engineering", "Builds, deploys and incidents"),
    ("compliance", "Restricted lists and approvals"),
    ("random", "Lunch, pets, anything else"),
)

SMALL_TALK = (
    *("Lunch at the noodle place at 12:30?", "The coffee machine on the third floor works again."),
    *("Does anyone have a spare monitor cable?", "Happy Friday, wherever you are in the week."),
    *("My cat walked over the keyboard during the call. Sorry.", "Running club meets at six by the river."),
)
OFFICE_TALK = (
    *(
        "Please book travel through the new portal.",
        "Minutes of the weekly meeting are in the shared folder.",
    ),
    *("Deploy finished, no errors in the logs.", "The backup of last night finished in time."),
    *("Reminder: trades in restricted names need approval first.", "The data feed had a gap of two minutes."),
)


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
    names = (
        "maya",
        "oskar",
        "lin",
        "dara",
        "felix",
        "noor",
        "pavel",
        "ruth",
        "sam",
        "tessa",
        "victor",
        "ana",
    )
    members = [WorkspaceMember(_id("U", stream), name) for name in names]
    channels = [
        Channel(_id("C", stream), name, topic, tuple(member.id for member in _some(members, name, stream)))
        for name, topic in TOPICS
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
            return stream.pick(SMALL_TALK)
        case _:
            return stream.pick(OFFICE_TALK)


def _results(market: Market, company: Company) -> str:
    last = market.quarters(company.symbol)[0]
    return f"{company.symbol} Q1 2026: revenue ${last.revenue:,}, EPS {last.eps:.2f}."
