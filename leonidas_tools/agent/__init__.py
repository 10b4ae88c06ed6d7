"""The agent: models, and what thinks, acts and observes with them."""
