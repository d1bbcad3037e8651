"""The words client and server share about episodes: which meta key names one, how its state is dropped."""

EXTENSION = "io.turnwise/episodes"
"""Advertised by a server that keeps episodes apart itself: the pool then shares one process for all."""

STATELESS = {"state": "none"}
"""Extension settings of a server that keeps no state between calls: all episodes may share it."""

CONCURRENCY = "concurrency"
"""Extension setting: how many calls the server processes at once. Clients send no more than that."""

EPISODE_KEY = "io.turnwise/episode"
"""`_meta` key of a tool call: the id of the episode that made it."""

DROP_METHOD = "turnwise/episodes/drop"
"""Request `{episode}`: forget all state of that episode."""

FAULT_KEY = "io.turnwise/fault"
"""`_meta` key of a result that is a fault of the server."""

UPSTREAM = "infra"
"""Its value if the provider behind the tool failed, not the call."""

BUG = "bug"
"""Its value if the tool raised what it does not handle; the same call may do so again."""

INSTANCE_KEY = "io.turnwise/instance"
"""`_meta` key of a result over HTTP: an id that a keyed server draws at each start."""
