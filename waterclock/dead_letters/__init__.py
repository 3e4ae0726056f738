"""Dead letters as people handle them: found by filter, shown with their bytes, redriven or put away.

The topic ``waterclock.dlq`` holds the letters themselves; which there are, and what was done about them, history tells.
"""
