"""Word lists of the embedded world: lines of business, and parts of invented names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Business:
    """A line of business: its names and products, and ranges for its accounts (margins in % of revenue)."""

    sector: str
    industry: str
    nouns: tuple[str, ...]
    products: tuple[str, ...]
    sic_code: str
    sic_description: str
    gross_margin: tuple[int, int]
    operating_costs: tuple[int, int]
    price_to_sales: tuple[float, float]


BUSINESSES = (
    Business(
        "Technology", "Software - Application", ("Software", "Systems", "Cloud"),
        ("workflow software", "identity management tools", "billing platforms", "planning suites"),
        "7372", "Services-Prepackaged Software", (62, 82), (42, 66), (4.0, 11.0),
    ),
    Business(
        "Technology", "Semiconductors", ("Semiconductor", "Photonics", "Microdevices"),
        ("power converters", "radio chips", "image sensors", "optical transceivers"),
        "3674", "Semiconductors & Related Devices", (42, 60), (22, 36), (3.0, 9.0),
    ),
    Business(
        "Technology", "Information Technology Services", ("Digital", "Data Services", "Consulting"),
        ("systems integration", "managed hosting", "cyber security reviews", "data migration"),
        "7374", "Services-Computer Processing & Data Preparation", (28, 40), (16, 25), (1.0, 3.0),
    ),
    Business(
        "Healthcare", "Biotechnology", ("Biosciences", "Therapeutics", "Genomics"),
        ("enzyme therapies", "antibody treatments", "gene assays", "rare disease drugs"),
        "2836", "Biological Products (No Diagnostic Substances)", (60, 85), (50, 95), (4.0, 12.0),
    ),
    Business(
        "Healthcare", "Medical Devices", ("Medical", "Surgical", "Diagnostics"),
        ("infusion pumps", "bone implants", "glucose monitors", "surgical staplers"),
        "3841", "Surgical & Medical Instruments & Apparatus", (50, 66), (32, 46), (3.0, 7.0),
    ),
    Business(
        "Healthcare", "Medical Care Facilities", ("Health", "Clinics", "Care Centers"),
        ("outpatient clinics", "dialysis centers", "rehabilitation stays", "home nursing"),
        "8090", "Services-Misc Health & Allied Services", (22, 34), (14, 24), (0.6, 1.8),
    ),
    Business(
        "Financial Services", "Banks - Regional", ("Bancorp", "Savings", "Trust"),
        ("mortgages", "small business loans", "savings accounts", "treasury services"),
        "6022", "State Commercial Banks", (58, 72), (30, 42), (2.0, 4.0),
    ),
    Business(
        "Financial Services", "Insurance - Property & Casualty", ("Insurance", "Assurance", "Mutual"),
        ("home insurance", "motor policies", "marine cover", "crop insurance"),
        "6331", "Fire, Marine & Casualty Insurance", (24, 36), (12, 20), (0.8, 2.2),
    ),
    Business(
        "Financial Services", "Asset Management", ("Capital", "Asset Management", "Partners"),
        ("index funds", "pension mandates", "private credit funds", "wealth accounts"),
        "6282", "Investment Advice", (55, 72), (26, 40), (3.0, 7.0),
    ),
    Business(
        "Energy", "Oil & Gas Exploration & Production", ("Petroleum", "Resources", "Energy"),
        ("crude oil", "natural gas", "condensate", "natural gas liquids"),
        "1311", "Crude Petroleum & Natural Gas", (34, 52), (12, 24), (1.0, 3.0),
    ),
    Business(
        "Energy", "Solar", ("Solar", "Renewables", "Sunworks"),
        ("solar modules", "inverters", "rooftop systems", "solar trackers"),
        "3433", "Heating Equipment, Except Electric & Warm Air Furnaces", (18, 32), (14, 30), (1.0, 4.0),
    ),
    Business(
        "Industrials", "Industrial Machinery", ("Robotics", "Machinery", "Industries"),
        ("packaging lines", "robot arms", "hydraulic presses", "conveyor drives"),
        "3559", "Special Industry Machinery", (30, 44), (16, 28), (1.2, 3.5),
    ),
    Business(
        "Industrials", "Aerospace & Defense", ("Aerospace", "Avionics", "Aircraft"),
        ("flight computers", "landing gear", "satellite frames", "cabin interiors"),
        "3728", "Aircraft Parts & Auxiliary Equipment", (20, 32), (9, 18), (1.0, 3.0),
    ),
    Business(
        "Industrials", "Trucking", ("Freight", "Logistics", "Transport"),
        ("long-haul freight", "parcel delivery", "cold storage haulage", "warehouse services"),
        "4213", "Trucking (No Local)", (18, 28), (10, 18), (0.6, 1.6),
    ),
    Business(
        "Consumer Cyclical", "Apparel Retail", ("Outfitters", "Apparel", "Clothing"),
        ("rain jackets", "work boots", "school uniforms", "knitwear"),
        "5651", "Retail-Family Clothing Stores", (36, 52), (26, 42), (0.6, 2.0),
    ),
    Business(
        "Consumer Cyclical", "Auto Parts", ("Motors", "Auto Parts", "Mobility"),
        ("brake assemblies", "wiring harnesses", "seat frames", "battery housings"),
        "3714", "Motor Vehicle Parts & Accessories", (14, 24), (7, 14), (0.5, 1.4),
    ),
    Business(
        "Consumer Cyclical", "Restaurants", ("Restaurants", "Kitchens", "Hospitality"),
        ("noodle bars", "bakery cafes", "grill houses", "catering"),
        "5812", "Retail-Eating Places", (20, 34), (9, 20), (0.8, 2.5),
    ),
    Business(
        "Consumer Defensive", "Packaged Foods", ("Foods", "Provisions", "Mills"),
        ("breakfast cereals", "frozen vegetables", "canned soups", "oat snacks"),
        "2000", "Food and Kindred Products", (24, 38), (13, 24), (0.8, 2.2),
    ),
    Business(
        "Consumer Defensive", "Household & Personal Products", ("Household", "Brands", "Naturals"),
        ("dish soaps", "paper towels", "hair care", "laundry powders"),
        "2840", "Soap, Detergents, Cleaning Preparations", (40, 58), (26, 42), (1.2, 3.5),
    ),
    Business(
        "Basic Materials", "Specialty Chemicals", ("Chemicals", "Materials", "Polymers"),
        ("coatings", "adhesives", "water treatment salts", "resin films"),
        "2890", "Miscellaneous Chemical Products", (26, 40), (13, 22), (1.0, 2.8),
    ),
    Business(
        "Basic Materials", "Copper & Gold", ("Mining", "Minerals", "Metals"),
        ("copper concentrate", "gold dore", "zinc ingots", "silver bars"),
        "1000", "Metal Mining", (24, 46), (8, 20), (1.2, 4.0),
    ),
    Business(
        "Utilities", "Regulated Electric", ("Power", "Electric", "Grid"),
        ("household electricity", "street lighting", "grid balancing", "industrial power"),
        "4911", "Electric Services", (34, 48), (14, 24), (1.4, 3.0),
    ),
    Business(
        "Utilities", "Regulated Water", ("Water", "Aqueduct", "Waterworks"),
        ("drinking water", "waste water treatment", "irrigation supply", "leak detection"),
        "4941", "Water Supply", (44, 58), (18, 28), (2.5, 5.0),
    ),
    Business(
        "Real Estate", "REIT - Industrial", ("Properties", "Warehouse Trust", "Estates"),
        ("distribution warehouses", "light industrial parks", "truck depots", "cold stores"),
        "6798", "Real Estate Investment Trusts", (60, 74), (22, 36), (5.0, 10.0),
    ),
    Business(
        "Communication Services", "Telecom Services", ("Telecom", "Networks", "Wireless"),
        ("fibre broadband", "mobile plans", "rural internet", "business lines"),
        "4813", "Telephone Communications (No Radiotelephone)", (46, 60), (26, 38), (0.9, 2.5),
    ),
    Business(
        "Communication Services", "Electronic Gaming & Multimedia", ("Games", "Studios", "Interactive"),
        ("strategy games", "animation series", "puzzle games", "sound libraries"),
        "7371", "Services-Computer Programming Services", (54, 72), (36, 60), (2.0, 7.0),
    ),
)  # fmt: skip

SECTORS = tuple(sorted({business.sector for business in BUSINESSES}))

BUSINESS_OF = {business.industry: business for business in BUSINESSES}

# A root is a head plus a tail. No combination is a word or, as far as we know, a listed company.
HEADS = (
    *("Abr", "Aldw", "Arv", "Balth", "Brask", "Corv", "Dask", "Drav", "Elb", "Fenw", "Galv", "Gresk"),
    *("Hald", "Hesk", "Ilm", "Jend", "Kald", "Kesk", "Kolv", "Lorv", "Mald", "Morv", "Nald", "Nesk"),
    *("Norv", "Obr", "Olv", "Pendr", "Quald", "Quorv", "Rask", "Relv", "Sald", "Skel", "Tald", "Tesk"),
    *("Thorv", "Ulv", "Umbr", "Vald", "Velm", "Vorsk", "Wesk", "Wold", "Yarr", "Yelv", "Zeld", "Zorv"),
)
TAILS = (
    *("abel", "andor", "anex", "avane", "edra", "elkin", "endal", "eska", "essen", "idane", "imar", "indel"),
    *("ithra", "obrin", "omund", "ondal", "orrel", "ovane", "ovia", "udane", "umbel", "unda", "urel", "uvex"),
)

TICKER_ENDINGS = "TSGHCDJ"
"""Tickers are five letters that end in one of these: hardly any real listing has that form."""

PLACES = (
    ("United States", ("Portland", "Columbus", "Tulsa", "Hartford", "Boise", "Raleigh", "Omaha", "Denver")),
    ("Canada", ("Halifax", "Winnipeg", "Calgary")),
    ("United Kingdom", ("Leeds", "Bristol", "Cardiff")),
    ("Germany", ("Bremen", "Leipzig", "Kassel")),
    ("Netherlands", ("Utrecht", "Eindhoven")),
    ("Japan", ("Sendai", "Nagoya")),
    ("Brazil", ("Curitiba", "Recife")),
    ("Sweden", ("Uppsala", "Malmo")),
    ("Israel", ("Haifa",)),
    ("Australia", ("Adelaide", "Perth")),
    ("Ireland", ("Cork", "Galway")),
    ("Switzerland", ("Basel", "Lausanne")),
)

FIRST_NAMES = (
    *("Amara", "Anders", "Beatriz", "Bela", "Callum", "Chiara", "Dagny", "Darius", "Elena", "Emeka", "Farid"),
    *("Freya", "Gideon", "Greta", "Hana", "Hugo", "Ines", "Isak", "Jonas", "Jun", "Kamala", "Kenji", "Leila"),
    *("Lucian", "Mateo", "Mirela", "Nadia", "Nils", "Odile", "Omar", "Petra", "Priya", "Quentin", "Rafael"),
    *(
        "Rosa",
        "Samir",
        "Signe",
        "Tamsin",
        "Tomas",
        "Ulrike",
        "Viktor",
        "Wen",
        "Xenia",
        "Yara",
        "Yusuf",
        "Zora",
    ),
)
LAST_NAMES = (
    *("Adelmoor", "Ashgrave", "Bellwick", "Brandholt", "Castellane", "Corrigane", "Dovrebakk", "Dunmarrow"),
    *("Elstrand", "Fairwend", "Farrowmere", "Galbraithe", "Greywick", "Halvarsen", "Hartmoor", "Ilvesky"),
    *("Jarnholm", "Kestrelby", "Kovarade", "Langmire", "Lindqvale", "Marchetto", "Mirandel", "Nakadori"),
    *("Norrvik", "Okonvale", "Ostergard", "Pellworth", "Quistgate", "Ravensby", "Rothmere", "Sandoval-Reyn"),
    *(
        "Selwyck",
        "Stavrande",
        "Takemori",
        "Thistlewood",
        "Ullmark",
        "Vandermoor",
        "Varghese-Lund",
        "Westmarch",
    ),
    *("Wintergard", "Yamakade", "Zelinkov", "Zoellerby"),
)

UNIVERSITIES = (
    *(
        "Northgate University",
        "the Marlowe Institute of Technology",
        "Eastmere College",
        "Port Aldous University",
    ),
    *("the Halden School of Business", "Lakeview Polytechnic", "Saint Orrin University", "Wexcombe College"),
)

PUBLISHERS = (
    *("The Ledger Post", "Harbor Financial Wire", "Tickerline", "Meridian Business Daily", "Open Bell News"),
    "Quayside Markets",
)
