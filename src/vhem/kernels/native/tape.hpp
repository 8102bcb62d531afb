// What a forward pass needs of the backward steps before it, in memory that does not depend on their number.
//
// The first steps are kept as they are made, up to kTapeBytes. Of those beyond, only every so many-th Y is kept, a mark; from a
// mark the steps up to the next are made again when the forward pass comes to them, if there are too many by way of further
// marks in between. So short recursions are made once, and one of n steps about log n / log kMarks times.
#pragma once

#include <algorithm>

#include "threads.hpp"

namespace {

class Tape {
    static constexpr int kMarks = 32, kLeastKept = 16;  // marks per level; steps that are kept even if they are large

    VecArray kept_, again_, marks_;
    int first_ = 0, step_ = 0, capacity_ = 0;  // registers of Y, and of a step
    long stride_ = 0;  // between marks of the first level

   public:
    struct Step {
        vec *first, *second;  // as large as Y, and whatever else there is to keep
    };

    // What a forward pass does with steps that were not kept; by virtual functions, so that the way through them is compiled once.
    struct Way {
        virtual void make(Step) = 0;         // makes a step again from Y, and leaves the next Y there
        virtual void use(long k, Step) = 0;  // takes part of step k

       protected:
        ~Way() = default;
    };

    // For at most n_steps of `first` and `second` registers. Memory is taken as it is needed.
    void begin(int first, int second, long n_steps) {
        first_ = first, step_ = first + second;
        const long room = kTapeBytes / static_cast<long>(step_ * sizeof(vec));
        capacity_ = static_cast<int>(std::clamp<long>(room, kLeastKept, std::max<long>(n_steps, kLeastKept)));
        stride_ = n_steps <= capacity_ ? 0 : (n_steps - capacity_ + kMarks - 1) / kMarks;
        again_.resize(static_cast<size_t>(step_));
        if (stride_) marks_.resize(static_cast<size_t>(kMarks) * first_);
    }

    // Where backward step k is to be written, and Y as it is before it.
    Step record(long k, const vec* Y) {
        if (k < capacity_) {
            kept_.resize(static_cast<size_t>(k + 2) * step_);
            return kept(k);
        }
        if ((k - capacity_) % stride_ == 0) std::copy_n(Y, first_, mark(0, (k - capacity_) / stride_));
        return slot(again_, 0);
    }

    // The place of what comes after all steps.
    Step last() { return kept_.resize(static_cast<size_t>(step_)), slot(kept_, 0); }

    // Steps n_steps - 1 … are used down to the first that was kept. Returns how many were.
    __attribute__((noinline)) long rewind(long n_steps, vec* Y, Way& way) {
        if (n_steps > capacity_) segments(0, capacity_, n_steps, stride_, Y, way);
        return std::min<long>(n_steps, capacity_);
    }
    Step kept(long k) { return slot(kept_, k + 1); }

   private:
    Step slot(VecArray& array, long k) const {
        vec* first = array.data() + static_cast<size_t>(k) * step_;
        return {first, first + first_};
    }
    vec* mark(int level, long n) { return marks_.data() + static_cast<size_t>(level * kMarks + n) * first_; }

    // Steps [begin, end), of which this level has marks every `stride`.
    void segments(int level, long begin, long end, long stride, vec* Y, Way& way) {
        for (long n = (end - begin - 1) / stride; n >= 0; --n) {
            const long from = begin + n * stride, to = std::min(end, from + stride);
            std::copy_n(mark(level, n), first_, Y);
            to - from <= capacity_ ? again(from, to, way) : divided(level + 1, from, to, Y, way);
        }
    }

    void again(long begin, long end, Way& way) {
        again_.resize(static_cast<size_t>(end - begin) * step_);
        for (long k = begin; k < end; ++k) way.make(slot(again_, k - begin));
        for (long k = end - 1; k >= begin; --k) way.use(k, slot(again_, k - begin));
    }

    void divided(int level, long begin, long end, vec* Y, Way& way) {
        marks_.resize(static_cast<size_t>((level + 1) * kMarks) * first_);
        const long stride = (end - begin + kMarks - 1) / kMarks;
        const long last_mark = begin + (end - begin - 1) / stride * stride;
        for (long k = begin; k <= last_mark; ++k) {
            if ((k - begin) % stride == 0) std::copy_n(Y, first_, mark(level, (k - begin) / stride));
            if (k < last_mark) way.make(slot(again_, 0));
        }
        segments(level, begin, end, stride, Y, way);
    }
};

}  // namespace
