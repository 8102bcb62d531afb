"""Arrays in, arrays out: the numerical kernels, in NumPy (`reference*`) and in C++ (`native`)."""
