"""How the intermediates of a model are found, and what they are after a known mistake."""
