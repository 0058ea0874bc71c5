"""Modules that declare operation types, for a type to load its own module alone; written by ``make operations``."""

from __future__ import annotations

from functools import cache

TYPES = {
    "compat.tf1.barriers.operations": "BarrierClose BarrierHandle BarrierInsertMany BarrierSize BarrierTakeMany",
    "compat.tf1.readers.operations": (
        "ReaderHandle ReaderNumRecordsProduced ReaderNumWorkUnitsCompleted ReaderRead ReaderReset"
    ),
    "compat.tf1.staging.operations": (
        "MapStageClear MapStageGet MapStageHandle MapStagePeek MapStagePut MapStageSize StageClear StagePeek"
    ),
    "ops.array.argminmax": "ArgMax ArgMin",
    "ops.array.binning": "HistogramBins SearchSorted",
    "ops.array.bits": "Bitcast EnsureShape",
    "ops.array.broadcasting": "BroadcastTo SumTo",
    "ops.array.concat": "Concat Split SplitV Stack Unstack",
    "ops.array.counting": "BinNumbers",
    "ops.array.creation": "Fill LinSpace Range",
    "ops.array.distinct": "DistinctRows",
    "ops.array.gather": "Gather GatherGrad UnsortedSegmentSum",
    "ops.array.grids": "BroadcastArgs UnravelIndex",
    "ops.array.index_vectors": "AddToRows GatherNd ScatterNd",
    "ops.array.layout": "Permute Reverse Tile TileGrad Transpose",
    "ops.array.one_hot": "OneHot",
    "ops.array.padding": "MirrorPad MirrorPadGrad Pad",
    "ops.array.partitioning": "DynamicPartition DynamicStitch DynamicStitchGrad",
    "ops.array.ranking": "NthElement TopK",
    "ops.array.scattering": "TensorScatterMax TensorScatterMin TensorScatterUpdate",
    "ops.array.segments": "SegmentPlaces SegmentProdOthers UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd",
    "ops.array.sequences": "RepeatIndices ReverseSequence Roll",
    "ops.array.shapes": "ExpandDims Rank Reshape Shape Size Squeeze",
    "ops.array.slicing": "BooleanMask Slice",
    "ops.array.sorted_segments": "SegmentCount",
    "ops.array.sorting": "AddAlongAxis ArgSort Sort TakeAlongAxis",
    "ops.array.strided": "AddToSlice StridedSlice StridedSliceGrad",
    "ops.array.unique": "InvertPermutation ListDiff Unique",
    "ops.array.where": "CheckedCondition NonZero Where",
    "ops.control.checks": "CheckNumerics",
    "ops.control.custom": "CustomGradient",
    "ops.control.effects": "Assert Print",
    "ops.control.identity": "IdentityN",
    "ops.control.placeholders": (
        "Const Feed Identity NoOp Param Placeholder PlaceholderWithDefault PreventGradient StopGradient"
    ),
    "ops.control.primitives": "Cond ControlTrigger Enter Exit LoopCond Merge NextIteration Switch SwitchN While",
    "ops.control.py_function": "PyFunction",
    "ops.image.boxes": "NonMaxSuppression SoftNonMaxSuppression",
    "ops.image.coding": "DecodeImage EncodeImage",
    "ops.image.drawing": "DrawBoundingBoxes",
    "ops.image.morphology": "Dilation2D DilationPlace",
    "ops.image.patches": "ExtractPatches ExtractPatchesGrad",
    "ops.image.resize": "Resize ResizeGrad",
    "ops.internal.fused": "Fused",
    "ops.internal.native": "Native",
    "ops.internal.partial_run": "PartialEnd PartialFeed PartialFetch",
    "ops.internal.send_recv": "IntoDevice Recv Send ToDevice ToHost",
    "ops.internal.watch": "Watch",
    "ops.linalg.cholesky": "Cholesky",
    "ops.linalg.determinants": "LogMatrixDeterminant MatrixDeterminant",
    "ops.linalg.diagonals": "MatrixDiag MatrixDiagPart MatrixSetDiag",
    "ops.linalg.eigenvalues": "SelfAdjointEig SelfAdjointEigvals",
    "ops.linalg.exponential": "Expm",
    "ops.linalg.orthogonal": "Qr",
    "ops.linalg.singular_values": "PseudoInverse SingularValues Svd",
    "ops.linalg.solving": "MatrixInverse MatrixSolve MatrixTriangularSolve",
    "ops.linalg.tensor_diagonals": "Diag DiagPart",
    "ops.linalg.transposing": "MatrixTranspose",
    "ops.linalg.triangles": "MatrixBandPart",
    "ops.math.arithmetic": (
        "Add AddN Atan2 DivNoNan FloorDiv FloorMod Maximum Minimum Mul Pow RealDiv SquaredDifference Sub Xlogy"
    ),
    "ops.math.bessel": (
        "BesselI BesselI0 BesselI0E BesselI1 BesselI1E BesselJ BesselJ0 BesselJ1 BesselK0 BesselK0E BesselK1 BesselK1E "
        "BesselY0 BesselY1"
    ),
    "ops.math.casting": "Cast",
    "ops.math.comparison": (
        "BitwiseAnd BitwiseOr BitwiseXor Equal Greater GreaterEqual Invert LeftShift Less LessEqual LogicalAnd "
        "LogicalNot LogicalOr LogicalXor NotEqual RightShift"
    ),
    "ops.math.complex": "Angle Complex Conj Imag Real",
    "ops.math.cumulative": "Cumprod Cumsum Prod ProdOthers",
    "ops.math.elementwise": (
        "Abs Ceil Erf Erfc Exp Expm1 Floor IsFinite IsInf IsNan Log Log1p Neg Reciprocal Rint Rsqrt Sign Sqrt Square"
    ),
    "ops.math.fake_quantizing": "FakeQuant",
    "ops.math.fourier": "FFT IRFFT RFFT",
    "ops.math.gamma": "Digamma Lgamma Polygamma Zeta ZetaSlope",
    "ops.math.guarded": "NextAfter TruncateDiv TruncateMod",
    "ops.math.incomplete": "Betainc Igamma IgammaSlope Igammac",
    "ops.math.linear": "MatMul MatMulAdd ProductSumAdd ProductSumBegin ProductSumEnd",
    "ops.math.random": "Instance RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal",
    "ops.math.reductions": "All Any LogSumExp Max Mean Min Sum Unreduce",
    "ops.math.running_logsumexp": "CumulativeExpSum CumulativeLogsumexp",
    "ops.math.special": "Dawsn Erfinv Expint FresnelCos FresnelSin Ndtri Spence",
    "ops.math.trigonometry": "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Tanh",
    "ops.math.zero_products": "DivOrZero MulNoNan",
    "ops.nn.activations": "Elu LeakyRelu Relu Relu6 Selu Sigmoid Softplus Softsign",
    "ops.nn.convolution_operations": (
        "Conv ConvBias ConvFilterBiasGrad ConvFilterGrad ConvInputGrad ConvInputGradMasked"
    ),
    "ops.nn.ctc": "CTCLoss CTCLossGrad",
    "ops.nn.ctc_decoding": "CTCBeamSearch",
    "ops.nn.edit_distance": "EditDistance",
    "ops.nn.losses": "LogSoftmax Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits",
    "ops.nn.pooling_kernels": "AvgPool AvgPoolGrad MaxPool",
    "ops.nn.window_maxima": "FlatPlaces MaxPoolGrad MaxPoolPick MaxPoolPlace PlacePick PlaceSum",
    "ops.queues.accumulators.operations": (
        "AccumulatorApplyGradient AccumulatorApplyRows AccumulatorHandle AccumulatorNumAccumulated "
        "AccumulatorSetGlobalStep AccumulatorTakeGradient AccumulatorTakeRows"
    ),
    "ops.queues.bridges.source_operations": "AsyncSourceHandle",
    "ops.queues.iterators": "IteratorGetNext IteratorHandle IteratorReset",
    "ops.queues.operations": (
        "Dequeue DequeueMany Enqueue EnqueueMany QueueChoice QueueClose QueueHandle QueueIsClosed QueueSize"
    ),
    "ops.random.candidate_draws": "RandomCandidates",
    "ops.random.discrete": "Categorical RandomShuffle",
    "ops.random.distributions": "RandomGamma RandomPoisson",
    "ops.random.keys": "KeyFoldIn KeySplit",
    "ops.random.stateless": (
        "StatelessCategorical StatelessGamma StatelessNormal StatelessPoisson StatelessShuffle "
        "StatelessTruncatedNormal StatelessUniform StatelessUniformInt"
    ),
    "ops.sparse.dense": "LastAtPlace SparseToDense",
    "ops.sparse.grouping": "GroupMax SameSizes SparseOrder",
    "ops.sparse.layout": "SparseReshape",
    "ops.sparse.masking": "IsIn",
    "ops.sparse.product": "SampledProduct SparseTensorDenseMatMul",
    "ops.state.files": "MatchingFiles ReadFile WriteFile",
    "ops.state.saving": "RestoreV2 SaveV2",
    "ops.state.series": (
        "MaybeGet SeriesAdd SeriesConcat SeriesEmpty SeriesExit SeriesPush SeriesRead SeriesReadOrZeros "
        "SeriesReadSeries SeriesSplit SeriesSpread SeriesSum SeriesSumSeries TripCount"
    ),
    "ops.state.session_handles": "GetSessionHandle",
    "ops.state.stacks": "StackClose StackNew StackPop StackPush",
    "ops.state.tables": "TableExport TableFind TableHandle TableInitialize TableInsert TableRemove TableSize",
    "ops.state.tensor_array.operations": (
        "TensorArrayClose TensorArrayConcat TensorArrayGather TensorArrayGrad TensorArrayNew TensorArrayRead "
        "TensorArrayReadBlock TensorArrayRowOf TensorArrayScatter TensorArraySize TensorArraySplit TensorArrayStack "
        "TensorArrayUnstack TensorArrayWrite"
    ),
    "ops.state.variables.operations": (
        "AssignAddVariable AssignSubVariable AssignVariable IsInitialized ReadVariable ScatterAdd ScatterSub "
        "ScatterUpdate VariableHandle"
    ),
    "ops.state.variables.scattering": (
        "ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd ScatterNdSub ScatterNdUpdate"
    ),
    "ops.strings.conversions": "AsString DecodeBase64 EncodeBase64 StringToHashBucket StringToNumber",
    "ops.strings.elementwise": "StringCase StringLength StringStrip Substr",
    "ops.strings.expressions": "RegexFullMatch RegexReplace",
    "ops.strings.joining": "ReduceJoin StringSplit",
}


@cache
def _modules() -> dict[str, str]:
    return {type: module for module, types in TYPES.items() for type in types.split()}


def module_of(type: str) -> str | None:
    """Return the module of the package that declares an operation type; None if there is no such type."""
    return _modules().get(type)
