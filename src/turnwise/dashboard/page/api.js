// Takes a question, gives the server's answer; in an exported file, the answer that was written into it.

import { recorded } from "./recorded.js";

export class Refused extends Error {}

export async function ask(path, parameters = {}) {
  const kept = recorded();
  if (kept) return kept.answer(path, parameters);
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || value === null || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) query.append(name, each);
  }
  const response = await fetch("api/" + path + "?" + query);
  const answer = await response.json().catch(() => ({ error: response.statusText }));
  if (!response.ok) throw new Refused(answer.error || String(response.status));
  return answer;
}

// Calls back whenever a run has grown; says whether the server is there.
export function listen(onGrowth, onState) {
  if (recorded()) return;
  const source = new EventSource("api/events");
  let version = -1;
  source.onmessage = (event) => {
    const now = JSON.parse(event.data);
    onState(now.is_whole ? "live" : "reading");
    if (now.version !== version) onGrowth();
    version = now.version;
  };
  source.onerror = () => onState("gone");
}
