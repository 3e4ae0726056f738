"""The operator's commands, one module for each noun; ``waterclock/cli.py`` loads the one that is asked for.

What a command computes goes to stdout, what it says goes to stderr. Every wait is bounded. Whatever is raised is an
error of ``waterclock.model.errors``: ``failing.py`` turns it into what, why and the next command, and an exit code.
"""
