"""Write a bookshop's data: an SQLite database of five tables, CSV files and a ledger.

Usage: python bookshop.py FOLDER
"""

import csv
import random
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path

FIRST_NAMES = ("Ada", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas")
LAST_NAMES = ("Almeida", "Brandt", "Castell", "Dunn", "Eriksen", "Fuchs", "Grant", "Holm", "Ivanov", "Jansen")
COUNTRIES = ("Portugal", "Germany", "Spain", "Ireland", "Norway", "Austria", "Canada", "Denmark")
CITIES = ("Lisbon", "Bremen", "Girona", "Cork", "Bergen", "Graz", "Halifax", "Aarhus", "Turku", "Ghent")
GENRES = ("history", "crime", "poetry", "travel", "science", "children")
ADJECTIVES = (
    "Silent",
    "Distant",
    "Copper",
    "Winter",
    "Hidden",
    "Amber",
    "Broken",
    "Patient",
    "Narrow",
    "Last",
)
NOUNS = (
    "Harbour",
    "Orchard",
    "Letter",
    "Garden",
    "Engine",
    "Mountain",
    "Archive",
    "River",
    "Lantern",
    "Compass",
)
STATUSES = ("paid", "shipped", "returned", "open")

SCHEMA = """
CREATE TABLE authors (author_id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL, born INTEGER);
CREATE TABLE books (book_id INTEGER PRIMARY KEY, title TEXT NOT NULL, author_id INTEGER REFERENCES authors,
  genre TEXT NOT NULL, price REAL NOT NULL, pages INTEGER NOT NULL, in_stock INTEGER NOT NULL);
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL,
  email TEXT NOT NULL, joined TEXT NOT NULL);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers,
  ordered_on TEXT NOT NULL, status TEXT NOT NULL);
CREATE TABLE order_lines (order_id INTEGER REFERENCES orders, book_id INTEGER REFERENCES books,
  quantity INTEGER NOT NULL, PRIMARY KEY (order_id, book_id));
"""

Row = Sequence[object]


def pick(chance: random.Random, items: Sequence[str]) -> str:
    return items[int(chance.random() * len(items))]


def number(chance: random.Random, low: int, high: int) -> int:
    return low + int(chance.random() * (high - low + 1))


def authors(chance: random.Random) -> list[Row]:
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    return [
        (key, names[key * 7 % 100], pick(chance, COUNTRIES), number(chance, 1921, 1994))
        for key in range(1, 25)
    ]


def books(chance: random.Random) -> list[Row]:
    titles = [f"The {adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS]
    return [
        (
            key,
            titles[key % 81],
            number(chance, 1, 24),
            pick(chance, GENRES),
            round(6 + 30 * chance.random(), 2),
            number(chance, 48, 720),
            number(chance, 0, 40),
        )
        for key in range(1, 81)
    ]


def customers(chance: random.Random) -> list[Row]:
    names = [f"{first} {last}" for last in LAST_NAMES for first in FIRST_NAMES]
    chosen = [names[(key * 13 + 5) % 100] for key in range(1, 51)]
    return [
        (
            key,
            name,
            pick(chance, CITIES),
            f"{name.lower().replace(' ', '.')}@example.org",
            day(chance, 2021, 900),
        )
        for key, name in enumerate(chosen, start=1)
    ]


def orders(chance: random.Random) -> list[Row]:
    return [
        (1000 + key, number(chance, 1, 50), day(chance, 2024, 500), pick(chance, STATUSES))
        for key in range(1, 121)
    ]


def order_lines(chance: random.Random) -> list[Row]:
    lines: list[Row] = []
    for key in range(1, 121):
        chosen = sorted({number(chance, 1, 80) for _ in range(number(chance, 1, 4))})
        lines.extend((1000 + key, book, number(chance, 1, 3)) for book in chosen)
    return lines


def day(chance: random.Random, year: int, num_days: int) -> str:
    return str(date(year, 1, 1) + timedelta(days=number(chance, 0, num_days)))


def invoices(chance: random.Random) -> list[Row]:
    suppliers = ("Norden Paper", "Quill & Sons", "Harbour Freight", "Lumen Energy", "Cedar Shelving")
    return [
        (
            f"INV-{2025_000 + key}",
            pick(chance, suppliers),
            day(chance, 2025, 180),
            round(40 + 960 * chance.random(), 2),
            pick(chance, ("paid", "due", "overdue")),
        )
        for key in range(1, 41)
    ]


def ledger(rows: Sequence[Row]) -> str:
    """Return the invoices as a beancount ledger."""
    suppliers = sorted({str(row[1]) for row in rows})
    accounts = [f"Expenses:{account_of(name)}" for name in suppliers] + [
        "Assets:Bank",
        "Liabilities:Suppliers",
    ]
    opened = [f"2025-01-01 open {account} EUR" for account in accounts]
    entries = [
        f'{when} * "{supplier}" "{invoice}"\n'
        f"  Expenses:{account_of(str(supplier))}  {amount:.2f} EUR\n"
        f"  {'Assets:Bank' if status == 'paid' else 'Liabilities:Suppliers'}\n"
        for invoice, supplier, when, amount, status in rows
    ]
    return "\n".join(['option "operating_currency" "EUR"', *opened, "", *entries])


def account_of(supplier: str) -> str:
    return "".join(character for character in supplier.title() if character.isalpha())


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(11)
    tables = {
        "authors": authors(chance),
        "books": books(chance),
        "customers": customers(chance),
        "orders": orders(chance),
        "order_lines": order_lines(chance),
    }
    (folder / "bookshop.db").unlink(missing_ok=True)
    database = sqlite3.connect(folder / "bookshop.db")
    database.executescript(SCHEMA)
    for name, rows in tables.items():
        database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        columns = [column[1] for column in database.execute(f"PRAGMA table_info({name})")]
        write_csv(folder / f"{name}.csv", columns, rows)
    database.commit()
    database.close()
    bills = invoices(chance)
    write_csv(folder / "invoices.csv", ("invoice", "supplier", "date", "amount", "status"), bills)
    (folder / "ledger.beancount").write_text(ledger(bills), encoding="utf-8")


if __name__ == "__main__":
    main()
