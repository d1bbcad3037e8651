// Whether the page is drawn because a run has grown: then rows keep their order and new ones are announced.

export const growth = { is: false };

const shownOrders = new Map();

// The items in the order in which they were shown, while a list only grows; how many are new.
export function steadily(list, items, keyOf) {
  const before = shownOrders.get(list), known = new Set(before);
  if (!growth.is || !before) { shownOrders.set(list, items.map(keyOf)); return { items, numNew: 0 }; }
  const byKey = new Map(items.map((item) => [keyOf(item), item]));
  return { items: before.filter((key) => byKey.has(key)).map((key) => byKey.get(key)), numNew: items.filter((item) => !known.has(keyOf(item))).length };
}
