"""Tasks for tools that take SQL: learn the tables, draw queries and changes, and word them as questions."""
