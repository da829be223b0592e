"""`Index`: packed rows with ids, an embedding and a file; its report, plan and evaluation; an index in parts."""
