"""Programs on accelerators: the executor that lowers them to XLA, with JAX as its compiler and runtime.

Nothing of it is imported until a device other than the CPU is asked for; see `framework.devices`.
"""
