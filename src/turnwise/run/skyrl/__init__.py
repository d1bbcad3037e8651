"""Rollouts of turnwise inside SkyRL's trainer; see docs/guides/scaling.md.

recipe ─ translation ─▶ SkyRL's config ─▶ experiment ─▶ SkyRL's trainer on Ray
                                             │ get_generator
Task ─ generator ─▶ Order ─ player(s) ─▶ Group ─ rows ─▶ GeneratorOutput
                              │ rollout/, mcp/, rewards/ as everywhere else
                              └ engine ─▶ SkyRL's inference client (vLLM)
"""
