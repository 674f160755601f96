"""What the GPU proof is made of: rows, the commands of cudasnoop, kernel names, the machine."""
