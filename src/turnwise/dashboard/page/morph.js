// Makes one tree of elements like another by changing only what differs: what stays keeps its focus, its scroll position,
// what was typed into it and what was unfolded.

export function morph(old, next) {
  if (!isAlike(old, next)) { old.replaceWith(next); return next; }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return old;
  }
  if (old.dataset.own !== undefined) return old; // what only the reader changes, such as a chart's tip
  if (old.tagName === "DETAILS" && next.open && "asked" in next.dataset && !("asked" in old.dataset)) old.open = true; // by the address
  sameAttributes(old, next);
  if (next.heard) old.heard = next.heard;
  if (next.renew && old.renew) { // it draws its inside itself, from what it is given
    if (old.tagName === "DETAILS") morph(old.querySelector("summary"), next.querySelector("summary"));
    old.renew(next.given);
    return old;
  }
  sameChildren(old, next);
  sameValue(old, next);
  return old;
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "";
}

function isAlike(one, other) {
  return one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

function sameAttributes(old, next) {
  const own = old.tagName === "DETAILS" ? ["open"] : []; // folding is the reader's
  for (const { name } of [...old.attributes]) if (!own.includes(name) && !next.hasAttribute(name)) old.removeAttribute(name);
  if (next.style && old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const { name, value } of next.attributes) if (name !== "style" && !own.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
}

function sameChildren(old, next) {
  const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  let at = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const key = keyOf(wanted), same = key ? keyed.get(key) : at && isAlike(at, wanted) ? at : null;
    if (!same || same.nodeName !== wanted.nodeName) { old.insertBefore(wanted, at); continue; }
    if (same === at) at = at.nextSibling; else old.insertBefore(same, at);
    morph(same, wanted);
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

function sameValue(old, next) {
  if (old === document.activeElement || (old.tagName === "OPTION" && old.closest("select") === document.activeElement)) return;
  if (old.tagName === "INPUT" && old.value !== next.value) old.value = next.value;
  if (old.tagName === "INPUT" && old.checked !== next.checked) old.checked = next.checked;
  if (old.tagName === "OPTION" && old.selected !== next.selected) old.selected = next.selected;
}
