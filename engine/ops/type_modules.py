"""Modules that declare operation types, for a type to load its own module alone; written by ``make operations``."""

from __future__ import annotations

from functools import cache

TYPES = {
    "array.argminmax": "ArgMax ArgMin",
    "array.binning": "HistogramBins SearchSorted",
    "array.bits": "Bitcast EnsureShape",
    "array.broadcasting": "BroadcastTo SumTo",
    "array.concat": "Concat Split SplitV Stack Unstack",
    "array.counting": "BinNumbers",
    "array.creation": "Fill LinSpace Range",
    "array.distinct": "DistinctRows",
    "array.gather": "Gather GatherGrad GatherNd ScatterNd UnsortedSegmentSum",
    "array.grids": "BroadcastArgs UnravelIndex",
    "array.layout": "Permute Reverse Tile TileGrad Transpose",
    "array.one_hot": "OneHot",
    "array.padding": "MirrorPad MirrorPadGrad Pad",
    "array.partitioning": "DynamicPartition DynamicStitch DynamicStitchGrad",
    "array.ranking": "NthElement TopK",
    "array.scattering": "TensorScatterMax TensorScatterMin TensorScatterUpdate",
    "array.segments": "SegmentPlaces SegmentProdOthers UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd",
    "array.sequences": "RepeatIndices ReverseSequence Roll",
    "array.shapes": "ExpandDims Rank Reshape Shape Size Squeeze",
    "array.slicing": "BooleanMask Slice",
    "array.sorted_segments": "SegmentCount",
    "array.sorting": "AddAlongAxis ArgSort Sort TakeAlongAxis",
    "array.strided": "StridedSlice StridedSliceGrad",
    "array.unique": "InvertPermutation ListDiff Unique",
    "array.where": "CheckedCondition NonZero Where",
    "control.checks": "CheckNumerics",
    "control.custom": "CustomGradient",
    "control.effects": "Assert Print",
    "control.identity": "IdentityN",
    "control.placeholders": (
        "Const Feed Identity NoOp Param Placeholder PlaceholderWithDefault PreventGradient StopGradient"
    ),
    "control.primitives": "Cond ControlTrigger Enter Exit LoopCond Merge NextIteration Switch SwitchN While",
    "control.py_function": "PyFunction",
    "image.boxes": "NonMaxSuppression SoftNonMaxSuppression",
    "image.coding": "DecodeImage EncodeImage",
    "image.drawing": "DrawBoundingBoxes",
    "image.morphology": "Dilation2D DilationPlace",
    "image.patches": "ExtractPatches ExtractPatchesGrad",
    "image.resize": "Resize ResizeGrad",
    "internal.fused": "Fused",
    "internal.native": "Native",
    "internal.partial_run": "PartialEnd PartialFeed PartialFetch",
    "internal.send_recv": "IntoDevice Recv Send ToDevice ToHost",
    "internal.watch": "Watch",
    "linalg.cholesky": "Cholesky",
    "linalg.determinants": "LogMatrixDeterminant MatrixDeterminant",
    "linalg.diagonals": "MatrixDiag MatrixDiagPart MatrixSetDiag",
    "linalg.eigenvalues": "SelfAdjointEig SelfAdjointEigvals",
    "linalg.exponential": "Expm",
    "linalg.orthogonal": "Qr",
    "linalg.singular_values": "PseudoInverse SingularValues Svd",
    "linalg.solving": "MatrixInverse MatrixSolve MatrixTriangularSolve",
    "linalg.tensor_diagonals": "Diag DiagPart",
    "linalg.transposing": "MatrixTranspose",
    "linalg.triangles": "MatrixBandPart",
    "math.arithmetic": (
        "Add AddN Atan2 DivNoNan FloorDiv FloorMod Maximum Minimum Mul Pow RealDiv SquaredDifference Sub Xlogy"
    ),
    "math.bessel": (
        "BesselI BesselI0 BesselI0E BesselI1 BesselI1E BesselJ BesselJ0 BesselJ1 BesselK0 BesselK0E BesselK1 BesselK1E "
        "BesselY0 BesselY1"
    ),
    "math.casting": "Cast",
    "math.comparison": (
        "BitwiseAnd BitwiseOr BitwiseXor Equal Greater GreaterEqual Invert LeftShift Less LessEqual LogicalAnd "
        "LogicalNot LogicalOr LogicalXor NotEqual RightShift"
    ),
    "math.complex": "Angle Complex Conj Imag Real",
    "math.cumulative": "Cumprod Cumsum Prod ProdOthers",
    "math.elementwise": (
        "Abs Ceil Erf Erfc Exp Expm1 Floor IsFinite IsInf IsNan Log Log1p Neg Reciprocal Rint Rsqrt Sign Sqrt Square"
    ),
    "math.fake_quantizing": "FakeQuant",
    "math.fourier": "FFT IRFFT RFFT",
    "math.gamma": "Digamma Lgamma Polygamma Zeta ZetaSlope",
    "math.guarded": "NextAfter TruncateDiv TruncateMod",
    "math.incomplete": "Betainc Igamma IgammaSlope Igammac",
    "math.linear": "MatMul MatMulAdd ProductSumAdd ProductSumBegin ProductSumEnd",
    "math.random": "Instance RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal",
    "math.reductions": "All Any LogSumExp Max Mean Min Sum Unreduce",
    "math.running_logsumexp": "CumulativeExpSum CumulativeLogsumexp",
    "math.special": "Dawsn Erfinv Expint FresnelCos FresnelSin Ndtri Spence",
    "math.trigonometry": "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Tanh",
    "math.zero_products": "DivOrZero MulNoNan",
    "nn.activations": "Elu LeakyRelu Relu Relu6 Selu Sigmoid Softplus Softsign",
    "nn.convolution_operations": "Conv ConvBias ConvFilterBiasGrad ConvFilterGrad ConvInputGrad ConvInputGradMasked",
    "nn.ctc": "CTCLoss CTCLossGrad",
    "nn.ctc_decoding": "CTCBeamSearch",
    "nn.edit_distance": "EditDistance",
    "nn.losses": "LogSoftmax Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits",
    "nn.pooling_kernels": "AvgPool AvgPoolGrad MaxPool",
    "nn.window_maxima": "FlatPlaces MaxPoolGrad MaxPoolPick MaxPoolPlace PlacePick PlaceSum",
    "queues.accumulators.operations": (
        "AccumulatorApplyGradient AccumulatorApplyRows AccumulatorHandle AccumulatorNumAccumulated "
        "AccumulatorSetGlobalStep AccumulatorTakeGradient AccumulatorTakeRows"
    ),
    "queues.barrier_operations": "BarrierClose BarrierHandle BarrierInsertMany BarrierSize BarrierTakeMany",
    "queues.bridges.source_operations": "AsyncSourceHandle",
    "queues.iterators": "IteratorGetNext IteratorHandle IteratorReset",
    "queues.operations": (
        "Dequeue DequeueMany Enqueue EnqueueMany QueueChoice QueueClose QueueHandle QueueIsClosed QueueSize"
    ),
    "queues.readers": "ReaderHandle ReaderNumRecordsProduced ReaderNumWorkUnitsCompleted ReaderRead ReaderReset",
    "queues.staging_operations": (
        "MapStageClear MapStageGet MapStageHandle MapStagePeek MapStagePut MapStageSize StageClear StagePeek"
    ),
    "random.candidate_draws": "RandomCandidates",
    "random.discrete": "Categorical RandomShuffle",
    "random.distributions": "RandomGamma RandomPoisson",
    "random.keys": "KeyFoldIn KeySplit",
    "random.stateless": (
        "StatelessCategorical StatelessGamma StatelessNormal StatelessPoisson StatelessShuffle "
        "StatelessTruncatedNormal StatelessUniform StatelessUniformInt"
    ),
    "sparse.dense": "LastAtPlace SparseToDense",
    "sparse.grouping": "GroupMax SameSizes SparseOrder",
    "sparse.layout": "SparseReshape",
    "sparse.masking": "IsIn",
    "sparse.product": "SampledProduct SparseTensorDenseMatMul",
    "state.files": "MatchingFiles ReadFile WriteFile",
    "state.saving": "RestoreV2 SaveV2",
    "state.series": (
        "MaybeGet SeriesAdd SeriesConcat SeriesEmpty SeriesExit SeriesPush SeriesRead SeriesReadOrZeros "
        "SeriesReadSeries SeriesSplit SeriesSpread SeriesSum SeriesSumSeries TripCount"
    ),
    "state.session_handles": "GetSessionHandle",
    "state.stacks": "StackClose StackNew StackPop StackPush",
    "state.tables": "TableExport TableFind TableHandle TableInitialize TableInsert TableRemove TableSize",
    "state.tensor_array.operations": (
        "TensorArrayClose TensorArrayConcat TensorArrayGather TensorArrayGrad TensorArrayNew TensorArrayRead "
        "TensorArrayReadBlock TensorArrayRowOf TensorArrayScatter TensorArraySize TensorArraySplit TensorArrayStack "
        "TensorArrayUnstack TensorArrayWrite"
    ),
    "state.variables.operations": (
        "AssignAddVariable AssignSubVariable AssignVariable IsInitialized ReadVariable ScatterAdd ScatterSub "
        "ScatterUpdate VariableHandle"
    ),
    "state.variables.scattering": (
        "ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd ScatterNdSub ScatterNdUpdate"
    ),
    "strings.conversions": "AsString DecodeBase64 EncodeBase64 StringToHashBucket StringToNumber",
    "strings.elementwise": "StringCase StringLength StringStrip Substr",
    "strings.expressions": "RegexFullMatch RegexReplace",
    "strings.joining": "ReduceJoin StringSplit",
}


@cache
def _modules() -> dict[str, str]:
    return {type: module for module, types in TYPES.items() for type in types.split()}


def module_of(type: str) -> str | None:
    """Return the module below ``ops`` that declares an operation type; None if there is no such type."""
    return _modules().get(type)
