"""Many conversations at once, for minutes, while all around them changes and fails."""
