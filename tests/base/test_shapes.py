"""What users of TensorFlow's TensorShape and DType ask of a Shape and a dtype."""

import pytest
import tagloom as tg

OPEN = tg.Shape([None, 3])


def test_a_shape_as_a_list():
    assert OPEN.as_list() == [None, 3]
    assert (OPEN.ndims, tg.Shape(None).ndims) == (2, None)
    with pytest.raises(tg.ShapeError, match="rank of this shape is not known"):
        tg.Shape(None).as_list()


def test_a_shape_of_some_rank():
    assert OPEN.with_rank(2) == OPEN
    assert tg.Shape(None).with_rank(2) == [None, None]
    assert OPEN.with_rank_at_least(1) is OPEN
    assert tg.Shape(None).with_rank_at_least(3) == tg.Shape(None)
    for refused in (lambda: OPEN.with_rank(3), lambda: OPEN.with_rank_at_least(3)):
        with pytest.raises(tg.ShapeError):
            refused()


def test_shapes_one_after_the_other():
    assert OPEN.concatenate([4, None]) == OPEN.concatenate(tg.Shape([4, None])) == [None, 3, 4, None]
    assert OPEN.concatenate(None) == tg.Shape(None)


@pytest.mark.parametrize(
    ("name", "hint"), [("is_fully_defined", "shape.is_fully_known"), ("merge_with", "shape.merge(other)")]
)
def test_another_name_is_refused_with_the_one_here(name, hint):
    with pytest.raises(AttributeError) as caught:
        getattr(OPEN, name)
    assert str(caught.value) == f"a Shape has no attribute '{name}'\n  try: {hint}"


def test_limits_of_dtypes():
    assert [(d.min, d.max) for d in (tg.int8, tg.uint16)] == [(-128, 127), (0, 65535)]
    assert tg.float32.max == 3.4028234663852886e38
    assert tg.bfloat16.max == -tg.bfloat16.min > 3e38
    assert type(tg.float16.max) is float
    with pytest.raises(tg.DtypeError, match="have limits"):
        tg.string.max  # noqa: B018


def test_scalar_types_of_numpy():
    assert [d.as_numpy_dtype.__name__ for d in (tg.float32, tg.bool, tg.bfloat16)] == ["float32", "bool", "bfloat16"]
