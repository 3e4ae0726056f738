"""DagRuns as people see and handle them: read from history node by node, drawn, paused, run again.

One place for API, command line and the look for stuck nodes. What stands here is history's word, and may lag.
"""
