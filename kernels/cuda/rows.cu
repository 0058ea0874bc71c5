// Softmax and the cross-entropies, of rows of `width` elements.

__device__ inline T largest(const T* x, Index width)
{
    T top = -infinity();
    EACH_COLUMN(c, width)
        top = larger(top, x[c]);
    return over_row<Larger>(top, LANE, LANES);
}

__device__ inline T sum_exp(const T* x, Index width, T top)
{
    T total = 0;
    EACH_COLUMN(c, width)
        total += exp(x[c] - top);
    return over_row<Add>(total, LANE, LANES);
}

__device__ inline T log_sum_exp(const T* x, Index width)
{
    T top = largest(x, width);
    if (!isfinite(top))
        top = 0;
    return log(sum_exp(x, width, top)) + top;
}

KERNEL softmax(Index rows, Index width, const T* x, T* y)
{
    EACH_ROW(r, rows) {
        const T* row = x + r * width;
        T top = largest(row, width);
        T total = sum_exp(row, width, top);
        EACH_COLUMN(c, width)
            y[r * width + c] = exp(row[c] - top) / total;
    }
}

KERNEL log_softmax(Index rows, Index width, const T* x, T* y)
{
    EACH_ROW(r, rows) {
        const T* row = x + r * width;
        T total = log_sum_exp(row, width);
        EACH_COLUMN(c, width)
            y[r * width + c] = row[c] - total;
    }
}

KERNEL cross_entropy(Index rows, Index width, const T* labels, const T* logits, T* loss)
{
    EACH_ROW(r, rows) {
        const T* row = logits + r * width;
        T total = log_sum_exp(row, width);
        T likely = 0;
        EACH_COLUMN(c, width)
            likely += labels[r * width + c] * (row[c] - total);
        likely = over_row<Add>(likely, LANE, LANES);
        if (LANE == 0)
            loss[r] = -likely;
    }
}

// A label that is no class sets `wrong` and reads nothing.
template <class Label>
__device__ inline void sparse(Index rows, Index width, const Label* labels, const T* logits, T* loss, int* wrong)
{
    EACH_ROW(r, rows) {
        const T* row = logits + r * width;
        T total = log_sum_exp(row, width);
        if (LANE != 0)
            continue;
        if (labels[r] < 0 || labels[r] >= (Label)width)
            *wrong = 1;
        else
            loss[r] = total - row[labels[r]];
    }
}

KERNEL sparse_int32(Index rows, Index width, const int* labels, const T* logits, T* loss, int* wrong)
{
    sparse(rows, width, labels, logits, loss, wrong);
}

KERNEL sparse_int64(Index rows, Index width, const long long* labels, const T* logits, T* loss, int* wrong)
{
    sparse(rows, width, labels, logits, loss, wrong);
}
