"""What comes back: plain JSON, truncated, stored for later, spoken; and all texts."""
