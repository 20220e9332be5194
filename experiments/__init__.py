"""Studies, benchmarks and figures."""
