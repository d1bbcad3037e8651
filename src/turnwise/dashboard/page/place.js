// Takes the address, gives where the user is: the view and its settings. Every state can be linked to.

export function place() {
  const [view, query] = location.hash.replace(/^#\/?/, "").split("?");
  const settings = Object.fromEntries(new URLSearchParams(query || ""));
  return { view: view || "", settings };
}

export function link(view, settings) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(settings)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, value);
  }
  const words = query.toString();
  return "#/" + view + (words ? "?" + words : "");
}

// With some settings changed; those that belong to every view are kept.
export function moved(changes, view) {
  const now = place();
  const kept = view && view !== now.view ? shared(now.settings) : now.settings;
  return link(view || now.view, { ...kept, ...changes });
}

let list = "";

// The list as it was last filtered, to come back to from an episode.
export function listAddress() {
  return list || moved({}, "trajectories");
}

export function rememberList() {
  list = location.hash;
}

export function go(changes, view) {
  location.hash = moved(changes, view);
}

const SHARED = ["runs", "run", "first", "last", "from", "to", "axis", "seeds", "smooth", "log"];

// The settings of every view. A single step is a list's filter: charts of it would have one point.
function shared(settings) {
  const isOneStep = settings.first !== undefined && settings.first === settings.last;
  const kept = SHARED.filter((key) => key in settings && !(isOneStep && ["first", "last"].includes(key)));
  return Object.fromEntries(kept.map((key) => [key, settings[key]]));
}
