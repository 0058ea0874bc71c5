"""Rules that operation types give the passes and backends: small frozen classes, one module for each consumer.

A definition lists its rules, ``define(..., rules=[Batch(emit), TakesPart()])``, and the consumer asks for its own,
``op.rule(Batch)``. The core reads none of them, so a new pass brings a class of its own; see docs/design/0050-rules.md.
"""
