"""What a request says: bodies, ids, paths, payload fields and filters, in the terms of a store."""
