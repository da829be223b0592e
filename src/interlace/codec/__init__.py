"""What a code means: codebooks, the embedding before them, encode and decode, and how exact distances are."""
