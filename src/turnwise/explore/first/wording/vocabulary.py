"""Words that names are made of: acronyms, abbreviations, irregular plurals."""

from turnwise.explore.first.wording.word_set import word_set

ACRONYMS = word_set("""
    id url uri api html json csv sql pdf ip isbn issn sku iban gdp utc gmt http https xml cpu gpu ram
    ceo cfo usd eur gbp jpy vat dns ssl tls ssh uuid md5 sha ascii iso iata icao doi eps etf ipo faq mcp
""")
"""Written in capitals wherever they occur."""

EXPANDED = {
    "num": "number of", "nb": "number of", "max": "maximum", "min": "minimum", "avg": "average",
    "qty": "quantity", "desc": "description", "lat": "latitude", "lon": "longitude", "lng": "longitude",
    "tz": "timezone", "ids": "IDs", "urls": "URLs", "repo": "repository", "repos": "repositories",
    "dir": "directory", "dirs": "directories", "addr": "address", "pct": "percentage",
    "percent": "percentage", "temp": "temperature", "config": "configuration", "src": "source",
    "filepath": "file path", "filename": "file name",
    "dst": "destination", "dest": "destination", "msg": "message", "info": "information",
    "phone": "phone number", "tel": "phone number",
    "param": "parameter", "params": "parameters", "lang": "language", "loc": "location",
}  # fmt: skip
"""Abbreviations that people would write out."""

EVENTS = {
    "created": "creation", "updated": "last update", "modified": "last modification",
    "changed": "last change", "published": "publication", "closed": "closing", "merged": "merge",
    "started": "start", "ended": "end", "finished": "end", "released": "release", "deleted": "deletion",
    "opened": "opening", "accessed": "last access", "completed": "completion", "due": "due",
    "expires": "expiry", "expired": "expiry", "ordered": "order", "added": "addition",
    "joined": "joining", "founded": "founding", "hired": "hiring", "posted": "posting",
    "sent": "sending", "received": "receipt", "registered": "registration", "installed": "installation",
}  # fmt: skip
"""Participles of names like `created_at`, as nouns."""

AGENTS = {
    "created": "creator", "updated": "last editor", "modified": "last editor", "published": "publisher",
    "written": "author", "posted": "poster", "owned": "owner", "assigned": "assigner",
}  # fmt: skip
"""Participles of names like `created_by`, as nouns."""

ADJECTIVES = word_set(
    "total recent new old active open closed unique distinct current max min maximum minimum"
)
"""Words before "count" that are no things to count."""

PREPOSITIONS = word_set("at by on in of from to for with as is are was has")
"""A name that begins or ends with one of these is no noun."""

IRREGULAR = {
    "child": "children", "person": "people", "man": "men", "woman": "women", "foot": "feet",
    "tooth": "teeth", "mouse": "mice", "index": "indices", "matrix": "matrices", "vertex": "vertices",
    "datum": "data", "analysis": "analyses", "crisis": "crises", "criterion": "criteria",
    "leaf": "leaves", "life": "lives", "knife": "knives", "half": "halves", "shelf": "shelves",
    "wife": "wives", "hero": "heroes", "potato": "potatoes", "tomato": "tomatoes", "movie": "movies",
    "cookie": "cookies", "database": "databases", "quiz": "quizzes", "bus": "buses", "gas": "gases",
    "lens": "lenses", "cache": "caches", "axis": "axes", "house": "houses", "course": "courses",
    "response": "responses", "expense": "expenses", "release": "releases", "case": "cases",
    "use": "uses", "base": "bases", "purchase": "purchases", "license": "licenses",
    "warehouse": "warehouses", "phase": "phases", "phrase": "phrases", "exercise": "exercises",
    "horse": "horses", "nurse": "nurses", "disease": "diseases", "purpose": "purposes",
    "lease": "leases", "size": "sizes", "image": "images", "tie": "ties", "pie": "pies",
    "archive": "archives",
}  # fmt: skip
"""Plurals that the rules would get wrong, in one direction or the other."""

UNCHANGED = word_set("""
    series species news information status address access process analysis basis bus gas lens progress
    business class data metadata equipment software hardware weather stock history research content
    sheep fish aircraft previous canvas atlas bonus virus campus census focus radius corpus menus alias
    tennis physics mathematics economics this was is has its pass loss boss cross glass grass mass press
    stress success witness plus
""")
"""Words that end in s or have no plural."""

ORDINALS = (
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)

MONEY = word_set(
    "sales earnings savings costs expenses revenues assets liabilities dollars cents proceeds taxes"
)
"""Plurals that are amounts, not counts of something."""
