"""Tools that do what no tool should, and a player that shows what becomes of the rest."""
