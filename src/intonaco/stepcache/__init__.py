"""Step caching: reuse of denoiser outputs at other steps of the same request.

Knows nothing of families, programs or pictures: tensors and numbers in, one prediction out.
"""
