"""Measurements that compare: peers beside us, and the plots of what was measured."""
