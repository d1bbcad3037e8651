"""The registry in which SkyRL looks up the sender of its weights."""

from typing import Any, ClassVar


class WeightTransferTrainerFactory:
    """Senders by their name; SkyRL registers its own subclasses."""

    _registry: ClassVar[dict[str, Any]] = {}

    @classmethod
    def register_engine(cls, name: str, engine: Any, class_name: str | None = None) -> None:
        cls._registry[name] = engine

    @classmethod
    def trainer_init(cls, init_info: Any, *, client: Any, source: Any) -> Any:
        return cls._registry[init_info.backend](init_info, client, source)
