"""Write a small company's files: notes, a wiki, a web site, a knowledge graph, JSON, a git repository.

Usage: python office.py FOLDER
"""

import html
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

PEOPLE = {
    "Maren Oduya": ("head of operations", "Bremen", "+49 421 555 0101"),
    "Tomas Lindqvist": ("backend engineer", "Aarhus", "+45 86 55 0102"),
    "Priya Raman": ("data engineer", "Lisbon", "+351 21 555 0103"),
    "Callum Reyes": ("support lead", "Cork", "+353 21 555 0104"),
    "Ottilie Weiss": ("designer", "Graz", "+43 316 555 0105"),
    "Sanna Korhonen": ("accountant", "Turku", "+358 2 555 0106"),
}
PROJECTS = {
    "Kestrel": ("Tomas Lindqvist", "2025-09-30", 48_000, "active"),
    "Larkspur": ("Priya Raman", "2025-12-15", 72_500, "active"),
    "Marram": ("Ottilie Weiss", "2025-06-01", 19_900, "finished"),
    "Nightjar": ("Callum Reyes", "2026-03-31", 31_250, "paused"),
}
MEETINGS = (
    ("2025-03-04", "Kestrel", "The import takes 41 minutes. Tomas will try batches of 500 rows."),
    ("2025-03-11", "Larkspur", "The warehouse has 17 tables. Priya removes 4 of them by May."),
    ("2025-03-18", "Kestrel", "Batches of 500 rows bring the import to 12 minutes."),
    ("2025-04-01", "Marram", "The new icons are ready: 64 files, 2 of them too large."),
    ("2025-04-15", "Nightjar", "Support answers 230 letters a week. The goal is 180."),
    ("2025-05-06", "Larkspur", "Three tables are gone. The nightly job costs 3.20 euros."),
)
PRODUCTS = (
    ("desk-lamp", "Desk lamp", 39.90, 12, "lighting"),
    ("floor-lamp", "Floor lamp", 89.00, 4, "lighting"),
    ("oak-shelf", "Oak shelf", 149.50, 7, "furniture"),
    ("wall-clock", "Wall clock", 24.75, 31, "decoration"),
    ("paper-tray", "Paper tray", 11.20, 58, "office"),
    ("filing-box", "Filing box", 8.95, 76, "office"),
    ("reading-chair", "Reading chair", 329.00, 2, "furniture"),
    ("picture-frame", "Picture frame", 17.40, 44, "decoration"),
)


def slug(name: str) -> str:
    return name.lower().replace(" ", "-")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_notes(folder: Path) -> None:
    """Plain text and Markdown in subfolders, as a team keeps them."""
    for day, project, text in MEETINGS:
        write(folder / "meetings" / f"{day}-{slug(project)}.md", f"# {project}, {day}\n\n{text}\n")
    for name, (job, city, phone) in PEOPLE.items():
        write(
            folder / "people" / f"{slug(name)}.txt",
            f"Name: {name}\nJob: {job}\nCity: {city}\nPhone: {phone}\n",
        )
    write(folder / "budget.csv", "project,owner,budget\n" + "".join(
        f"{name},{owner},{budget}\n" for name, (owner, _, budget, _) in PROJECTS.items()
    ))  # fmt: skip
    settings = {"currency": "EUR", "language": "en", "backup": {"hour": 3, "keep_days": 30}}
    write(folder / "settings.json", json.dumps(settings, indent=2) + "\n")
    write(folder / "README.md", "# Team folder\n\nMeetings by date, one file for every person, the budget.\n")


def write_wiki(folder: Path) -> None:
    """A vault of linked pages with front matter."""
    for name, (job, city, phone) in PEOPLE.items():
        owned = [project for project, values in PROJECTS.items() if values[0] == name]
        links = "".join(f"- [[{project}]]\n" for project in owned) or "none\n"
        front = f"---\ntags: [person]\nrole: {job}\ncity: {city}\n---\n"
        write(
            folder / "People" / f"{name}.md", f"{front}# {name}\n\nPhone: {phone}\n\n## Projects\n\n{links}"
        )
    for name, (owner, due, budget, status) in PROJECTS.items():
        front = f"---\ntags: [project, {status}]\nowner: {owner}\ndue: {due}\nbudget: {budget}\n---\n"
        said = "".join(f"- {day}: {text}\n" for day, project, text in MEETINGS if project == name)
        body = f"# {name}\n\nOwner: [[{owner}]]\n\n## Meetings\n\n{said}"
        write(folder / "Projects" / f"{name}.md", front + body)
    write(folder / "Home.md", "# Home\n\n" + "".join(f"- [[{name}]]\n" for name in (*PROJECTS, *PEOPLE)))


def write_site(folder: Path) -> None:
    """A shop's web site: an index and a page for every product."""
    items = "".join(f'<li><a href="{key}.html">{name}</a></li>' for key, name, *_ in PRODUCTS)
    write(folder / "index.html", page("Lantern & Oak", f"<p>Eight products.</p><ul>{items}</ul>"))
    for key, name, price, stock, category in PRODUCTS:
        rows = {"Price": f"{price:.2f} EUR", "In stock": stock, "Category": category}
        cells = "".join(f"<tr><th>{label}</th><td>{value}</td></tr>" for label, value in rows.items())
        write(folder / f"{key}.html", page(name, f"<table>{cells}</table><p>Delivery takes three days.</p>"))


def page(title: str, body: str) -> str:
    title = html.escape(title)
    head = f"<!doctype html><html lang=en><head><title>{title}</title></head>"
    return f"{head}<body><h1>{title}</h1>{body}</body></html>\n"


def write_graph(path: Path) -> None:
    """A knowledge graph in the format of the reference memory server."""
    lines: list[dict[str, Any]] = []
    for name, (job, city, phone) in PEOPLE.items():
        facts = [f"works as {job}", f"lives in {city}", f"phone {phone}"]
        lines.append({"type": "entity", "name": name, "entityType": "person", "observations": facts})
    for name, (_, due, budget, status) in PROJECTS.items():
        facts = [f"due on {due}", f"budget {budget} EUR", f"is {status}"]
        lines.append({"type": "entity", "name": name, "entityType": "project", "observations": facts})
    for name, (owner, *_) in PROJECTS.items():
        lines.append({"type": "relation", "from": owner, "to": name, "relationType": "leads"})
    lines.append({"type": "relation", "from": "Kestrel", "to": "Larkspur", "relationType": "feeds"})
    lines.append({"type": "relation", "from": "Sanna Korhonen", "to": "Larkspur", "relationType": "audits"})
    write(path, "\n".join(json.dumps(line) for line in lines) + "\n")


def write_json(folder: Path) -> None:
    """JSON files that refer to one another by key."""
    products = [
        {"id": key, "name": name, "price": price, "stock": stock, "category": category}
        for key, name, price, stock, category in PRODUCTS
    ]
    people = [
        {"name": name, "job": job, "city": city, "phone": phone}
        for name, (job, city, phone) in PEOPLE.items()
    ]
    chance = random.Random(5)
    sales = [
        {
            "sale": 500 + number,
            "product": PRODUCTS[int(chance.random() * len(PRODUCTS))][0],
            "seller": list(PEOPLE)[int(chance.random() * len(PEOPLE))],
            "quantity": 1 + int(chance.random() * 5),
        }
        for number in range(30)
    ]
    for name, rows in (("products", products), ("people", people), ("sales", sales)):
        write(folder / f"{name}.json", json.dumps(rows, indent=2) + "\n")


MAREN, TOMAS, PRIYA, CALLUM, OTTILIE, _ = PEOPLE
_RATES = "country,rate\n"
_SVG = "<svg xmlns='http://www.w3.org/2000/svg'>"
COMMITS = (
    (TOMAS, "Start the importer", "importer.py", "def read(path):\n    return open(path).read()\n"),
    (TOMAS, "Describe the importer", "README.md", "# Importer\n\nReads invoices.\n"),
    (PRIYA, "Add a table of tax rates", "rates.csv", _RATES + "DE,0.19\nDK,0.25\n"),
    (TOMAS, "Read rows in batches", "importer.py", "BATCH = 100\n\n\ndef read(path):\n    ...\n"),
    (CALLUM, "Fix a spelling mistake", "README.md", "# Importer\n\nReads invoices in batches.\n"),
    (PRIYA, "Add the rate of Portugal", "rates.csv", _RATES + "DE,0.19\nDK,0.25\nPT,0.23\n"),
    (OTTILIE, "Add an icon", "icon.svg", _SVG + "</svg>\n"),
    (TOMAS, "Raise the batch size to 500", "importer.py", "BATCH = 500\n\n\ndef read(path):\n    ...\n"),
    (PRIYA, "Test the rates", "test_rates.py", "def test_rates():\n    assert True\n"),
    (CALLUM, "List known problems", "PROBLEMS.md", "# Problems\n\n1. Empty files stop the import.\n"),
    (TOMAS, "Skip empty files", "importer.py", "BATCH = 500\nSKIP_EMPTY = True\n"),
    (CALLUM, "Remove the solved problem", "PROBLEMS.md", "# Problems\n\nNone.\n"),
    (PRIYA, "Add the rate of Austria", "rates.csv", _RATES + "AT,0.2\nDE,0.19\nDK,0.25\nPT,0.23\n"),
    (OTTILIE, "Draw the icon", "icon.svg", _SVG + "<circle r='4'/></svg>\n"),
    (MAREN, "Set the version to 1.0", "VERSION", "1.0\n"),
)


def write_repository(folder: Path) -> None:
    """A git repository of fifteen commits, two branches and a tag, with the same hashes every time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "Bench")
    git(folder, "config", "user.email", "bench@example.org")
    for number, (author, subject, name, text) in enumerate(COMMITS):
        write(folder / name, text)
        git(folder, "add", name)
        when = f"2025-0{1 + number // 5}-{10 + number}T09:{number:02}:00+00:00"
        git(folder, "commit", "--quiet", "-m", subject, author=author, when=when)
    git(folder, "tag", "v1.0")
    git(folder, "branch", "old-rates", "HEAD~4")
    write(folder / "README.md", "# Importer\n\nReads invoices in batches of 500.\n")


def git(
    folder: Path, *arguments: str, author: str = "Bench", when: str = "2025-01-01T00:00:00+00:00"
) -> None:
    email = f"{author.lower().replace(' ', '.')}@example.org"
    by = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", author), ("EMAIL", email), ("DATE", when))
    }
    # No configuration of the user: hooks and signatures would change the hashes.
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, env={**os.environ, **alone, **by})


def main() -> None:
    folder = Path(sys.argv[1])
    write_notes(folder / "notes")
    write_wiki(folder / "wiki")
    write_site(folder / "site")
    write_graph(folder / "graph" / "memory.jsonl")
    write_json(folder / "json")
    write_repository(folder / "repository")


if __name__ == "__main__":
    main()
