"""What goes through a model: calibration data, and the statistics of each matrix's inputs."""
