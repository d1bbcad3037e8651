"""Stands in for vllm-router, which SkyRL imports but does not start: the engine has an external URL."""
