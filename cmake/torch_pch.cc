// Gives the precompiled header of cmake/torch.cmake a target.
