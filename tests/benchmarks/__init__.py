"""What things cost, in one run, beside a program written by hand."""
