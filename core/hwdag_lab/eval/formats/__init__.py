"""Official formats of public data sets: one file each, one function per format."""
