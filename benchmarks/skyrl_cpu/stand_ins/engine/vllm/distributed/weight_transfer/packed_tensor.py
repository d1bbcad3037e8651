"""The constant that SkyRL imports; nothing is packed here."""

DEFAULT_PACKED_BUFFER_SIZE_BYTES = 1 << 20
