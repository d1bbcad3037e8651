"""One deterministic synthetic world behind every server: no key, no network."""
