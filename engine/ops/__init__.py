"""Layer 3: the operations, one module per family.

Each operation is one block: signature, shape rule, kernel, gradient (or the reason why there is none) and samples,
beside the public function that builds it. Importing a module declares its operations.
"""
