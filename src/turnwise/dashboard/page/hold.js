// Takes what the user has in hand before the page is drawn anew, gives it back afterwards: the focus, and where a run
// has only grown, what was unfolded, how far tables were moved and which step a chart was at. What follows its end stays there.

const MOVED = ".wide, .tokens, .json, pre";

export function hold(isGrowth) {
  const focused = addressOf(document.activeElement);
  const open = all("details[id]").map((each) => [each.id, each.open]);
  const far = all(MOVED).map((each) => [each.scrollLeft, each.dataset.follows && isAtEnd(each) ? Number.MAX_SAFE_INTEGER : each.scrollTop]);
  const walked = all(".chart[data-at]").map((each) => [each.id, each.dataset.at]);
  return () => {
    const found = focused && all(focused.kind).find((each) => addressOf(each).key === focused.key);
    if (found && found !== document.activeElement) found.focus({ preventScroll: true });
    if (!isGrowth) return Boolean(found);
    for (const [id, isOpen] of open) if (document.getElementById(id)) document.getElementById(id).open = isOpen;
    all(MOVED).forEach((each, place) => far[place] && each.scrollTo(...far[place]));
    for (const [id, at] of walked) if (document.getElementById(id)) document.getElementById(id).walk(Number(at));
    return Boolean(found);
  };
}

function isAtEnd(element) {
  return element.scrollTop + element.clientHeight >= element.scrollHeight - 4;
}

function all(which) {
  return [...document.querySelectorAll(which)];
}

function addressOf(element) {
  if (!element || element === document.body) return null;
  if (element.id) return { kind: "[id]", key: element.id };
  return element.tagName === "A" ? { kind: "a:not([id])", key: element.getAttribute("href") } : null;
}
