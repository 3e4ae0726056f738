"""The worker: work in, outcomes out. Claims, executes, completes."""
