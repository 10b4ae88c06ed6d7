"""How a person is asked, and what was answered: requests, grants, and the words that were said."""
