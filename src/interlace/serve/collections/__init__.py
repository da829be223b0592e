"""What a collection is and does: the stores of a directory, and searches, listings and changes of one of them."""
