"""Systems that people would pick instead of ours, each measured in one harness: `python -m bench.peers`."""
