"""The policy and how it learns: samples in, new weights out; nothing here knows of tools or engines."""
