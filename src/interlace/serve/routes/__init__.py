"""Routes by subject; each module adds its own to an application."""
