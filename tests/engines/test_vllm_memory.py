"""A vLLM that does not start for want of memory: the error names the key to lower."""

from turnwise.engines.vllm.calls import VllmSettings, memory_hint


def test_a_start_without_memory_names_the_key_that_sets_it() -> None:
    cached = VllmSettings(cache_bytes=3 * 2**29)
    error = RuntimeError("Engine core initialization failed. See root cause above.")
    assert memory_hint(error, cached) == "; if memory ran out, lower engine.vllm.cache_gib, which is 1.5"
    shared = VllmSettings(memory_share=0.4)
    error = RuntimeError("No available memory for the cache blocks.")
    assert memory_hint(error, shared).endswith("lower engine.vllm.gpu_memory_utilization, which is 0.4")
    assert memory_hint(RuntimeError("no such folder"), cached) == ""
