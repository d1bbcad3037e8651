"""Tasks for tools that compute from their inputs alone: converters, calculators, arithmetic over numbers."""
