"""How requests get in: headers, keys, limits, the log, how a route is called, and the express path past the routes."""
