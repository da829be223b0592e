"""How requests are run: threads, batches of plain queries, metrics, and what the routes share."""
