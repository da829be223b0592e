"""The suites of the frameworks run in a process of their own, with their own settings of pytest."""

collect_ignore = ["conformance"]
