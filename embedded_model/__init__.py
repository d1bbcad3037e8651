"""How the model that ships with turnwise is made; not part of the installed package."""
