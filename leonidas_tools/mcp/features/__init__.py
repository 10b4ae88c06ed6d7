"""What a server may request of its client, and its resources and prompts."""
