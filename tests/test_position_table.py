"""The committed comparison of position schemes is what the code computes."""

import csv

import position_table

import dlref.positions as P


def test_the_file_is_up_to_date():
    with position_table.FILE.open(newline="") as file:
        header, *committed = csv.reader(file)
    assert header == position_table.HEADER
    assert committed == position_table.rows()


def test_every_scheme_has_a_row():
    maps = {n for n in P.__all__ if n.endswith(("_bias", "_scores", "cope", "sinusoidal"))}
    maps |= {"apply_rope", "apply_xpos", "learned_positions"}
    named = " ".join(row[0] for row in position_table.SCHEMES)
    assert all(f".{name}`" in named for name in maps)
