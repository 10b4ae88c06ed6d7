"""Results as plain JSON: truncated, stored for later, spoken; and all texts."""
