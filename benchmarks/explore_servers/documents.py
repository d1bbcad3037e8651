"""Write one kind of document: a workbook, a Word report or a DuckDB database, from the bookshop's tables.

Usage: python documents.py workbook|report|warehouse SHOP_FOLDER TARGET_FILE
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Every library is imported where it is used: only the environment of the server that reads the format has it.


def write_workbook(shop: Path, target: Path) -> None:
    """A sheet for every table, and a sheet with formulas."""
    import openpyxl

    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for table in ("books", "customers", "invoices"):
        sheet = workbook.create_sheet(table.capitalize())
        for row in rows_of(shop / f"{table}.csv"):
            sheet.append([number_or_text(cell) for cell in row])
    totals = workbook.create_sheet("Totals")
    totals.append(["What", "Value"])
    totals.append(["Books", "=COUNTA(Books!B2:B81)"])
    totals.append(["Stock", "=SUM(Books!G2:G81)"])
    workbook.save(target)


def write_report(shop: Path, target: Path) -> None:
    """Headings, paragraphs and a table."""
    import docx

    report = docx.Document()
    report.add_heading("Bookshop report", 0)
    for genre in ("history", "crime", "poetry", "travel"):
        books = [row for row in rows_of(shop / "books.csv") if row[3] == genre]
        report.add_heading(genre.capitalize(), 1)
        report.add_paragraph(f"We hold {len(books)} titles of this genre. The first is {books[0][1]}.")
    invoices = rows_of(shop / "invoices.csv")[:9]
    table = report.add_table(rows=len(invoices), cols=len(invoices[0]))
    for row, cells in zip(table.rows, invoices, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    report.save(str(target))


def write_warehouse(shop: Path, target: Path) -> None:
    """The tables of the CSV files."""
    import duckdb

    target.unlink(missing_ok=True)
    with duckdb.connect(str(target)) as database:
        for table in ("authors", "books", "customers", "orders", "order_lines", "invoices"):
            database.execute(f"CREATE TABLE {table} AS SELECT * FROM read_csv('{shop / table}.csv')")


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def number_or_text(cell: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


WRITERS: dict[str, Callable[[Path, Path], Any]] = {
    "workbook": write_workbook,
    "report": write_report,
    "warehouse": write_warehouse,
}


def main() -> None:
    kind, shop, target = sys.argv[1:]
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    WRITERS[kind](Path(shop), Path(target))


if __name__ == "__main__":
    main()
