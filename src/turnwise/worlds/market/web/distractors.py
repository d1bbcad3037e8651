"""Web pages that share words with the market's documents but hold no fact of it: (slug, title, text)."""

DISTRACTORS = (
    (
        "price-earnings-ratio",
        "What is a price-earnings ratio?",
        "The price-earnings ratio divides the price of a share by the earnings per share of the last four "
        "quarters. A company that lost money has no meaningful ratio. Comparing ratios across sectors can "
        "mislead.",
    ),
    (
        "market-capitalisation",
        "Market capitalisation explained",
        "Market capitalisation, or market cap, is the share price times the number of shares outstanding. "
        "It says what the stock market thinks the equity of a company is worth.",
    ),
    (
        "previous-close",
        "Previous close and change per cent",
        "The previous close is the closing price of the session before the last one. The change per cent "
        "of a session is its close less the previous close, divided by the previous close.",
    ),
    (
        "gross-profit",
        "Gross profit and operating income",
        "Gross profit is revenue less the cost of revenue. Operating income is gross profit less operating "
        "expenses. Net income comes after interest and taxes.",
    ),
    (
        "market-hours",
        "When the stock market is open",
        "The regular session runs from 09:30 to 16:00 New York time on weekdays that are not holidays. "
        "After-hours trading follows until 20:00.",
    ),
    (
        "ohlcv",
        "Reading OHLCV bars",
        "A bar holds the open, high, low and close of a period and the volume traded in it. Minute bars "
        "add up to hourly bars, and hourly bars to daily bars.",
    ),
    (
        "earnings-season",
        "What happens in earnings season",
        "Listed companies publish their quarterly results a few weeks after the quarter ends. Shares often "
        "move more than usual on those days.",
    ),
    (
        "chief-executive",
        "What a chief executive does",
        "The chief executive officer (CEO) answers to the board and leads the company day to day. The "
        "chief financial officer (CFO) keeps the accounts.",
    ),
    (
        "index-funds",
        "A short history of index funds",
        "Index funds hold every share of an index instead of choosing among them. They became popular "
        "because their costs are low.",
    ),
    (
        "diversification",
        "Why diversify?",
        "Holding many companies from different sectors lowers the risk that one bad quarter ruins a "
        "portfolio. It does not remove the risk of the whole market falling.",
    ),
    (
        "short-selling",
        "Short selling in plain words",
        "A short seller borrows shares, sells them and hopes to buy them back for less. The possible loss "
        "has no limit.",
    ),
    (
        "sic-codes",
        "What SIC codes are for",
        "A standard industrial classification code is four digits that say what a company mainly does. "
        "Regulators use them to group filings.",
    ),
    (
        "sourdough",
        "A first sourdough loaf",
        "Mix flour, water and a lively starter, let the dough rest overnight, and bake it in a hot pot. "
        "Revenue from the first loaves is usually zero.",
    ),
    (
        "solar-eclipse",
        "How to watch a solar eclipse",
        "Never look at the sun without a proper filter. A pinhole in a card throws a safe image on the "
        "ground.",
    ),
    (
        "river-power",
        "Water mills and early power",
        "Before electric grids, mills took power from rivers. A wheel of four metres could grind grain for "
        "a village.",
    ),
    (
        "robot-contest",
        "School robotics contest results",
        "Forty teams met in the sports hall. The winning robot stacked eleven blocks in two minutes.",
    ),
    (
        "copper-roofs",
        "Why copper roofs turn green",
        "Rain and air give copper a green layer called patina, which protects the metal below it for "
        "centuries.",
    ),
    (
        "freight-trains",
        "The longest freight trains",
        "Some ore trains are more than two kilometres long. Radio links keep several locomotives in step.",
    ),
    (
        "chess-opening",
        "An opening for beginners",
        "Move the king's pawn two squares, bring out a knight and a bishop, and castle early. Do not close "
        "the centre too soon.",
    ),
    (
        "marathon-training",
        "Sixteen weeks to a marathon",
        "Raise the weekly distance slowly, run most of it at an easy pace, and rest in the last two weeks.",
    ),
    (
        "garden-shares",
        "Sharing a community garden",
        "Each member gets two beds and a share of the compost. Meetings open at nine and close at ten.",
    ),
    (
        "python-lists",
        "Lists and tuples in Python",
        "A list can change and a tuple cannot. Both keep their order and both can be sliced.",
    ),
    (
        "slack-etiquette",
        "Good manners in team chat",
        "Say what you need in the first message, use threads, and do not write to a whole channel at night.",
    ),
    (
        "telescope-mirror",
        "Grinding a telescope mirror",
        "Two glass discs, grit and patience give a curve that is true to a fraction of a wavelength of "
        "light.",
    ),
)
