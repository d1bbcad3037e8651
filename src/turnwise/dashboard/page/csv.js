// Rows as CSV, and files that the page gives to the browser to save.

import { make, readable } from "./dom.js";

// Texts come from runs: one that a spreadsheet would compute as a formula gets an apostrophe before it.
export function csvOf(heads, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
    const text = readable(value).replace(/^(?=\s*[=+\-@|%])/, "'");
    return /[",\n\r;]|^\s|\s$/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return [heads, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}

export function saveCsv(name, heads, rows) {
  save(name + ".csv", new Blob([csvOf(heads, rows)], { type: "text/csv;charset=utf-8" }));
}

export function save(name, content) {
  const address = URL.createObjectURL(content);
  make("a", { href: address, download: name.replace(/[^A-Za-z0-9._-]+/g, "-") }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
