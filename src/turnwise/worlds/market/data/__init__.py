"""The market's companies, prices and statements, computed from a seed, and the tables of listed ones."""
