"""The small simulation: the whole system in one process, from one seed, under a clock moved by hand."""
