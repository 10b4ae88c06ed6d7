"""Which tools a server lists, and what becomes of them here."""
