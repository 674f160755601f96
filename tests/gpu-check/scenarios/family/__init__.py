"""Every family of CUDA calls, made by ctypes; what each call was told and answered is the truth."""
