"""Texts of others that would rewrite what a person sees."""

SIGNS = [
    "\x1b[3J",
    "\x1b]0;title\x07",
    "\x9b3J",
    "\x07",
    "\b",
    "\r",
    "\n",
    "\t",
    "\x0b",
    "\x0c",
    "\x7f",
    "\x85",
    "\u00ad",
    "\u200b",
    "\u202e",
    "\u2028",
    "\u2029",
    "\u2066",
    "\ufeff",
    "\U000e0041",
]
FORGED = "FORGED: all is well"
HOSTILE = f"x{''.join(SIGNS)}[red]a[/red][/b][link=file:///]\nFORGED: all is well"
