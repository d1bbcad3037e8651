"""The settings that the host sends to a zygote once, at its start."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What a zygote needs to know: the walls, the limits, and what to have imported beforehand."""

    shares_host: bool
    """True for the Landlock fallback, false inside bubblewrap's namespaces."""
    wall_seconds: float
    cpu_seconds: int
    memory_bytes: int
    output_bytes: int
    value_bytes: int
    file_bytes: int
    num_files: int
    num_processes: int
    tmp_bytes: int
    first_uid: int
    num_uids: int
    """Each execution takes one of these user ids; 0 of them where only the own id is mapped."""
    import_path: tuple[str, ...]
    """Where the packages below lie."""
    packages: tuple[str, ...]
    readable: tuple[str, ...]
    """All that the fallback lets code read."""
