// The theme's colours, for canvases: they do not follow the style sheet by themselves.

// The current theme's colour of this name, with an opacity from 0 to 1.
export function ink(name, opacity = 1) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() + Math.round(255 * opacity).toString(16).padStart(2, "0");
}

// Draw in light colours, on any theme: what is drawn goes onto white paper. The page itself is not repainted meanwhile,
// as long as `drawn` waits for nothing but microtasks.
export async function onPaper(drawn) {
  const root = document.documentElement, before = root.dataset.theme;
  root.dataset.theme = "light";
  try {
    return await drawn();
  } finally {
    if (before === undefined) delete root.dataset.theme; else root.dataset.theme = before;
  }
}
