"""One file a way of answering calls; each has `make(functions)`."""
