"""What panels and reports show on a screen, as plain values, and the script that draws it."""
