"""The class that SkyRL imports."""


class RouterArgs: ...
