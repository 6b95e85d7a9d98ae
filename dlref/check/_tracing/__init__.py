"""How the intermediates of a model are found, and their values after a known mistake."""
