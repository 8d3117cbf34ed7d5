"""The works of fxai beside the same works of its rivals, each in an environment of its own with pinned versions."""
