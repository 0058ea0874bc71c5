"""Steps: requests, compilation, execution, outcomes and reports."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "outcomes": "StepRecord",
    "step": "Step",
    "stream": "StepStream",
    "tensor_handle": "TensorHandle",
}
