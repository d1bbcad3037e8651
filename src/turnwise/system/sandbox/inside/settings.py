"""The settings that the host sends to a zygote once, at its start."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a zygote: its isolation, the limits, and the packages to import in advance."""

    shares_host: bool
    """True for the Landlock fallback, False inside bubblewrap's namespaces."""
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
    """Each execution runs under one of these user ids; if 0, it keeps the zygote's own."""
    import_path: tuple[str, ...]
    """Directories of the packages below."""
    packages: tuple[str, ...]
    readable: tuple[str, ...]
    """All paths that the fallback lets code read."""
