// The columns of the list of episodes, and the order by each of them.

export const COLUMNS = [
  { head: "played for", key: "step", up: "oldest", down: "newest", isNumber: true },
  { head: "task", key: "task" }, { head: "question", key: "question" }, { head: "answer", key: "answer" }, { head: "expected", key: "expected" },
  { head: "failed check", key: "failed_check", up: "failed" }, { head: "family", key: "family" }, { head: "reward", key: "reward", isNumber: true },
  { head: "stop", key: "stop" }, { head: "fault", key: "fault" }, { head: "turns", key: "num_turns", up: "turns", isNumber: true },
  { head: "calls", key: "num_calls", up: "calls", isNumber: true }, { head: "tokens", key: "num_tokens", up: "tokens", isNumber: true },
  { head: "time", key: "seconds", isNumber: true },
].map((column) => ({ up: column.key, ...column })).map((column) => ({ down: "-" + column.up, ...column }));

// Every order by its name, in words.
export function orders() {
  return COLUMNS.flatMap(({ head, up, down, isNumber }) => isNumber
    ? [[down, head + ", " + (up === "oldest" ? "newest" : "most") + " first"], [up, head + ", " + (up === "oldest" ? "oldest" : "least") + " first"]]
    : [[up, head + ", A to Z"], [down, head + ", Z to A"]]);
}

// The rows in the order that the server would give them: numbers before texts, in both directions.
export function inOrder(rows, sort) {
  const wanted = sort || "newest", column = COLUMNS.find(({ up, down }) => wanted === up || wanted === down);
  if (!column) return rows;
  const direction = wanted === column.up ? 1 : -1, { key } = column;
  const isEmpty = (row) => row[key] === null || row[key] === "" || (key === "fault" && row[key] === "none");
  const numberOf = (row) => row[key + "_number"] ?? null, isText = (row) => numberOf(row) === null;
  const value = (row) => typeof row[key] === "string" ? row[key].toLowerCase() : row[key];
  const compared = (one, other) => direction * ((one > other) - (one < other));
  return [...rows].sort((a, b) => isEmpty(a) - isEmpty(b) || isText(a) - isText(b) || (isEmpty(a) ? 0 : compared(numberOf(a), numberOf(b)) || compared(value(a), value(b))) || a.id - b.id);
}
