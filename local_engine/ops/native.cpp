// The small operations of a decoding step on a CPU, each in one pass over its numbers.
//
// Compiled on the machine by native.py, called through plain pointers. All numbers are float32, and
// rows are contiguous unless a distance is given. Threads are those of the OpenMP library that
// torch has loaded. Sums keep eight partial results, as torch's own kernels do.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr long ENOUGH = 1 << 15;  // multiplications from which several threads are faster

float squares(const float *x, long width) {
    float sum = 0;
    for (long i = 0; i < width; i++) sum += x[i] * x[i];
    return sum;
}

void scale(const float *x, const float *weight, float *out, long width, float eps) {
    const float factor = 1.0f / std::sqrt(squares(x, width) / float(width) + eps);
    for (long i = 0; i < width; i++) out[i] = x[i] * factor * weight[i];
}

typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));

const Eight &eight(const float *at) { return *reinterpret_cast<const Eight *>(at); }

float total(Eight x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

// Scores of `count` keys that are contiguous, for HEADS query heads; width is a multiple of 8.
template <int HEADS>
void score(const float *query, const float *key, long count, long width, float factor,
           float *scores, long distance) {
    long at = 0;
    for (; at + 4 <= count; at += 4, key += 4 * width) {
        Eight sums[HEADS][4] = {};
        for (long d = 0; d < width; d += 8)
            for (int head = 0; head < HEADS; head++)
                for (int i = 0; i < 4; i++)
                    sums[head][i] += eight(query + head * width + d) * eight(key + i * width + d);
        for (int head = 0; head < HEADS; head++)
            for (int i = 0; i < 4; i++)
                scores[head * distance + at + i] = factor * total(sums[head][i]);
    }
    for (; at < count; at++, key += width)
        for (int head = 0; head < HEADS; head++) {
            Eight sum = {};
            for (long d = 0; d < width; d += 8)
                sum += eight(query + head * width + d) * eight(key + d);
            scores[head * distance + at] = factor * total(sum);
        }
}

// Adds `count` contiguous values, each by its share, to HEADS rows of out.
template <int HEADS, int VECTORS>
void blend(const float *shares, long distance, const float *value, long count, long width,
           float *out) {
    Eight sums[HEADS][VECTORS];
    for (int head = 0; head < HEADS; head++)
        for (int i = 0; i < VECTORS; i++) sums[head][i] = eight(out + head * width + 8 * i);
    for (long at = 0; at < count; at++, value += width)
        for (int head = 0; head < HEADS; head++)
            for (int i = 0; i < VECTORS; i++)
                sums[head][i] += shares[head * distance + at] * eight(value + 8 * i);
    for (int head = 0; head < HEADS; head++)
        for (int i = 0; i < VECTORS; i++)
            *reinterpret_cast<Eight *>(out + head * width + 8 * i) = sums[head][i];
}

template <int HEADS>
void blend_all(const float *shares, long distance, const float *value, long count, long width,
               float *out) {
    long d = 0;
    for (; d + 32 <= width; d += 32)
        blend<HEADS, 4>(shares, distance, value + d, count, width, out + d);
    for (; d < width; d += 8) blend<HEADS, 1>(shares, distance, value + d, count, width, out + d);
}

// Turns scores into weights that sum to one.
void softmax(float *scores, long count) {
    float most = scores[0];
    for (long i = 1; i < count; i++) most = scores[i] > most ? scores[i] : most;
    float sum = 0;
    for (long i = 0; i < count; i++) {
        scores[i] = std::exp(scores[i] - most);
        sum += scores[i];
    }
    const float share = 1.0f / sum;
    for (long i = 0; i < count; i++) scores[i] *= share;
}

struct Pages {
    const int32_t *table;
    long size;
};

// One token's query heads that share one key/value head: [heads, width] each of query and out.
void attend_one(const float *query, const float *keys, const float *values, float *out, Pages pages,
                long heads, long width, long first, long end, float factor, float *scores) {
    const long count = end - first;
    for (long at = first; at < end;) {
        const long inside = at % pages.size;
        const long stop = at + pages.size - inside < end ? at + pages.size - inside : end;
        const float *key = keys + (long(pages.table[at / pages.size]) * pages.size + inside) * width;
        float *to = scores + at - first;
        long head = 0;
        for (; head + 2 <= heads; head += 2)
            score<2>(query + head * width, key, stop - at, width, factor, to + head * count, count);
        if (head < heads)
            score<1>(query + head * width, key, stop - at, width, factor, to + head * count, count);
        at = stop;
    }
    for (long head = 0; head < heads; head++) softmax(scores + head * count, count);
    for (long i = 0; i < heads * width; i++) out[i] = 0;
    for (long at = first; at < end;) {
        const long inside = at % pages.size;
        const long stop = at + pages.size - inside < end ? at + pages.size - inside : end;
        const float *value =
            values + (long(pages.table[at / pages.size]) * pages.size + inside) * width;
        const float *shares = scores + at - first;
        long head = 0;
        for (; head + 2 <= heads; head += 2)
            blend_all<2>(shares + head * count, count, value, stop - at, width, out + head * width);
        if (head < heads)
            blend_all<1>(shares + head * count, count, value, stop - at, width, out + head * width);
        at = stop;
    }
}

// Ascending keys are (value descending, id ascending); the id is the lower half. Integers only:
// what fast arithmetic makes of infinities does not matter.
int32_t ordered(float value) {
    int32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return ((bits >> 31) & 0x7fffffff) ^ bits;
}

int64_t key(int32_t order, int64_t id) { return id - (int64_t(order) << 32); }

}  // namespace

extern "C" {

// x, out: [rows, width], rows of x at a distance.
void strowger_norm(const float *x, const float *weight, float *out, long rows, long width,
                   long distance, float eps) {
    for (long row = 0; row < rows; row++)
        scale(x + row * distance, weight, out + row * width, width, eps);
}

// x becomes x + branch, out its normalisation.
void strowger_add_norm(float *x, const float *branch, const float *weight, float *out, long rows,
                       long width, float eps) {
    for (long row = 0; row < rows; row++) {
        float *sum = x + row * width;
        const float *other = branch + row * width;
        for (long i = 0; i < width; i++) sum[i] += other[i];
        scale(sum, weight, out + row * width, width, eps);
    }
}

// heads: [rows, count, width], rows at a distance; cosine, sine: [rows, width], the sine signed.
void strowger_rotate(const float *heads, const float *cosine, const float *sine, float *out,
                     long rows, long count, long width, long distance) {
    const long half = width / 2;
    for (long row = 0; row < rows; row++) {
        const float *c = cosine + row * width, *s = sine + row * width;
        for (long head = 0; head < count; head++) {
            const float *from = heads + row * distance + head * width;
            float *to = out + (row * count + head) * width;
            for (long i = 0; i < half; i++) {
                to[i] = from[i] * c[i] + from[i + half] * s[i];
                to[i + half] = from[i + half] * c[i + half] + from[i] * s[i + half];
            }
        }
    }
}

// gate_up: [rows, 2 * width]; out: [rows, width].
void strowger_swiglu(const float *gate_up, float *out, long rows, long width, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > ENOUGH)
    for (long row = 0; row < rows; row++) {
        const float *gate = gate_up + 2 * row * width, *up = gate + width;
        float *to = out + row * width;
        for (long i = 0; i < width; i++) to[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    }
}

// key, value: [rows, kv_heads, width], rows at separate distances, into the slots of a
// [kv_heads, slots, width] cache.
void strowger_store(const float *key, const float *value, float *keys, float *values,
                    const int64_t *places, long rows, long kv_heads, long width, long key_distance,
                    long value_distance, long slots) {
    for (long row = 0; row < rows; row++)
        for (long head = 0; head < kv_heads; head++) {
            const float *k = key + row * key_distance + head * width;
            const float *v = value + row * value_distance + head * width;
            const long to = (head * slots + places[row]) * width;
            for (long i = 0; i < width; i++) keys[to + i] = k[i];
            for (long i = 0; i < width; i++) values[to + i] = v[i];
        }
}

// query: [*, kv_heads * heads, width], rows at a distance; out the same without gaps. For each of
// `count` rows: its place in query and out, where its page table begins, and how many keys it sees.
void strowger_attend(const float *query, const float *keys, const float *values, float *out,
                     const int32_t *tables, const int64_t *rows, long count, long kv_heads,
                     long heads, long width, long distance, long slots, long page, long window,
                     float factor, int threads) {
    const long total = count * kv_heads;
    long most = 0, sum = 0;
    for (long i = 0; i < count; i++) {
        const long seen = rows[3 * i + 2];
        most = seen > most ? seen : most;
        sum += seen;
    }
#pragma omp parallel num_threads(threads) if (sum * kv_heads * heads * width > ENOUGH)
    {
        std::vector<float> scores(heads * most);
#pragma omp for schedule(static)
        for (long task = 0; task < total; task++) {
            const int64_t *row = rows + 3 * (task / kv_heads);
            const long head = task % kv_heads, end = row[2];
            const long first = window && end > window ? end - window : 0;
            const float *own = query + row[0] * distance + head * heads * width;
            float *to = out + (row[0] * kv_heads + head) * heads * width;
            const long at = head * slots * width;
            attend_one(own, keys + at, values + at, to, Pages{tables + row[1], page}, heads, width,
                       first, end, factor, scores.data());
        }
    }
}

// The ids of the `count` largest of `vocabulary` values of each row, largest first, equals by id.
// peaks: the maximum of every `block` values, `blocks` of them a row, more than `count`.
// chosen: which of the rows, `given` of them; null is the first `given`.
void strowger_top(const float *values, const float *peaks, const int64_t *chosen, int64_t *ids,
                   long given, long vocabulary, long blocks, long block, long count) {
    std::vector<int64_t> keys(blocks), found;
    for (long place = 0; place < given; place++) {
        const long row = chosen ? chosen[place] : place;
        const float *peak = peaks + row * blocks, *value = values + row * vocabulary;
        for (long b = 0; b < blocks; b++) keys[b] = key(ordered(peak[b]), b);
        std::nth_element(keys.begin(), keys.begin() + count - 1, keys.begin() + blocks);
        // Each of these blocks holds its peak, so nothing below the smallest of the peaks is needed.
        const int32_t least = ordered(peak[keys[count - 1] & 0xffffffff]);
        found.clear();
        for (long b = 0; b < count; b++) {
            const long first = (keys[b] & 0xffffffff) * block;
            const long end = std::min(first + block, vocabulary);
            for (long id = first; id < end; id++)
                if (const int32_t order = ordered(value[id]); order >= least)
                    found.push_back(key(order, id));
        }
        std::nth_element(found.begin(), found.begin() + count - 1, found.end());
        std::sort(found.begin(), found.begin() + count);
        for (long i = 0; i < count; i++) ids[place * count + i] = found[i] & 0xffffffff;
    }
}

}  // extern "C"
