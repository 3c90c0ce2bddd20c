"""From ranges of inputs to what a kernel is given: reading, decoding, spreading over the buckets.

Start with `rangereader.read_range`.
"""
