"""What things cost, in one run, beside a program written by hand and beside the sketch this library grew from."""
