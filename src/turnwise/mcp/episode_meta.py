"""The words client and server share about episodes: which meta key names one, how its state is dropped."""

EXTENSION = "io.turnwise/episodes"
"""Advertised by a server that keeps episodes apart by itself: the pool then shares one process for all."""

STATELESS = {"state": "none"}
"""The extension's settings of a server that keeps nothing between calls: all episodes may share it."""

CONCURRENCY = "concurrency"
"""The extension's setting for how many calls the server works on at once; a client then sends no more."""

EPISODE_KEY = "io.turnwise/episode"
"""`_meta` key of a tool call: the id of the episode that made it."""

DROP_METHOD = "turnwise/episodes/drop"
"""Request `{episode}`: forget all state of that episode."""

FAULT_KEY = "io.turnwise/fault"
"""`_meta` key of a result: `infra` when the provider behind the tool failed, not the call."""

INSTANCE_KEY = "io.turnwise/instance"
"""`_meta` key of a result over HTTP: which start of a keyed server gave it."""
