"""What runs around the mathematics: mesh, checkpoints, metrics, progress, reports and compile counts."""
