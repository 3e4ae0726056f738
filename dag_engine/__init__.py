"""The DAG engine: ends of nodes in, released nodes and ends of DagRuns out."""
