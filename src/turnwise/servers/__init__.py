"""The five servers that ship with turnwise; `SERVERS` in `services.py` lists them."""
