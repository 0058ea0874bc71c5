"""Layer 0: foundations for all other packages, without knowledge of graphs or steps."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "dtypes": (
        "DType as_dtype bfloat16 complex64 complex128 float16 float32 float64 int8 int16 int32 int64 string uint8 "
        "uint16 uint32 uint64 bool_:bool"
    ),
    "errors": (
        "BranchMismatchError CheckpointError DeadFetchError DeviceMemoryError DtypeError GraphError LoopVariableError "
        "OpError Overloaded PipelineError QueueClosed SessionClosed ShapeError StackError StepTimeout SwapError "
        "TagloomError TensorArrayError UninitializedVariableError VectorizationError"
    ),
    "settings": "Settings Switches",
    "shapes": "Shape",
    "version": "VERSION:__version__",
}
