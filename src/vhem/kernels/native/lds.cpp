// Kalman filter, smoother and sums of EM for linear dynamical systems, kLanes sequences at a time.
//
// Covariances do not depend on the observations: sequences without gaps share those of their system (Filter). What is
// missing changes them, so sequences with gaps have their own, lane by lane (OwnFilter); a frame behind the end of a lane's
// sequence is one with nothing in it.
#include <limits>
#include <memory>
#include <numeric>

#include "steady_basis.hpp"

namespace {

constexpr long kAllFrames = std::numeric_limits<long>::max();

// Up to kLanes sequences of similar length.
struct Bundle {
    const long d;
    int lanes;
    const bool looked_through;  // for gaps, frame by frame
    long sequence[kLanes], length[kLanes], longest = 0, whole;  // the last: frames that all lanes have, with all values
    const double* rows[kLanes];
    vec lengths = {};

    Bundle(const Sequences& all, const long* chosen, int lanes, bool gaps, bool looked_through)
        : d(all.d), lanes(lanes), looked_through(looked_through), whole(gaps || lanes < kLanes ? 0 : all.length(chosen[lanes - 1])) {
        for (int l = 0; l < kLanes; ++l) {
            sequence[l] = chosen[l < lanes ? l : 0];
            rows[l] = all.begin(sequence[l]);
            length[l] = all.length(sequence[l]);
            longest = std::max(longest, length[l]);
            if (l < lanes) lengths[l] = static_cast<double>(length[l]);
        }
    }

    ivec active(long t) const { return lengths > static_cast<double>(t); }

    // Frame t of every lane; behind the end of a sequence `otherwise`, or its last frame.
    void load(long t, vec* y, const double* otherwise = nullptr) const {
        const double* from[kLanes];
        for (int l = 0; l < kLanes; ++l) {
            const bool here = t < length[l] && l < lanes;
            from[l] = here || !otherwise ? rows[l] + std::min(t, length[l] - 1) * d : otherwise;
        }
        into_lanes(from, d, y);
    }
};

// The frames of a bundle in lanes, `most` at a time, about an origin; zero behind the end of a sequence and in gaps that are
// known to be there.
class Frames {
    const Bundle& bundle_;
    const double* nothing_ = nullptr;  // a frame of missing values, if gaps are known
    const long most_;
    VecArray own_;

  public:
    const long d;
    vec *origin, *sums, *squares;  // (d,) each; Σ_t of the frames and of their squares, after the first time through
    long first = 0, n = 0;

    // About an origin of each sequence near its frames, so that sums of squares lose no digits.
    Frames(const Bundle& bundle, const std::vector<double>& origins, long most)
        : bundle_(bundle), most_(std::min(most, bundle.longest)), d(bundle.d) {
        make_room();
        for (int l = 0; l < bundle.lanes; ++l)
            for (long j = 0; j < d; ++j) origin[j][l] = origins[bundle.sequence[l] * d + j];
    }

    // About the ȳ of a system: for sequences with gaps.
    Frames(const Bundle& bundle, const double* nothing, const System& s)
        : bundle_(bundle), nothing_(nothing), most_(std::min(kFramesInLanes, bundle.longest)), d(bundle.d) {
        make_room();
        for (long j = 0; j < d; ++j) origin[j] = splat(s.offset[j]);
    }

    vec* at(long t) { return squares + (t - first + 1) * d; }

    // Calls work() for every block of frames; if there is only one, it is loaded once.
    template <class Work>
    void each_block(Worker& worker, Work work) {
        for (first = 0; first < bundle_.longest; first += n) {
            worker.checkpoint();
            const bool loaded = n == bundle_.longest;
            n = std::min(most_, bundle_.longest - first);
            if (!loaded) each_few([&](long t, long some) { load(t, some); });
            work();
        }
        summed_ = true;
    }

    // Σ_t of channel j, and of its squares, about an offset from which the origin is so far apart.
    vec sum_from(vec apart, long j) const { return fma(bundle_.lengths, apart, sums[j]); }
    vec squares_from(vec apart, long j) const { return fma(apart, sums[j] + sum_from(apart, j), squares[j]); }

    // Whether there were gaps nobody knew of.
    bool are_incomplete() const {
        if (bundle_.looked_through) return false;
        vec zero = {};
        for (long j = 0; j < d; ++j) zero += 0.0 * squares[j];
        return any(zero != zero);
    }

    // Calls work(first, n) for every few frames of the block, which stay in the first-level cache.
    template <class Work>
    void each_few(Work work) const {
        for (long t = first; t < first + n; t += kProjected) work(t, std::min(kProjected, first + n - t));
    }

  private:
    bool summed_ = false;

    void make_room() {
        own_.resize((3 + most_) * d);
        origin = own_.data(), sums = origin + d, squares = sums + d;
        std::fill_n(origin, 3 * d, vec{});
    }

    void load(long begin, long n_frames) {
        for (long t = begin; t < begin + n_frames; ++t) {
            vec* y = at(t);
            bundle_.load(t, y, nothing_);
            if (t < bundle_.whole) continue;
            const ivec active = bundle_.active(t);
            for (long j = 0; j < d; ++j) y[j] = (nothing_ ? y[j] == y[j] : active) ? y[j] : origin[j];
        }
        for (long j = 0; j < d; ++j) {
            vec *y = at(begin) + j, sum = sums[j], square = squares[j];
            for (long t = 0; t < n_frames; ++t, y += d) *y -= origin[j], sum += *y, square = fma(*y, *y, square);
            if (!summed_) sums[j] = sum, squares[j] = square;
        }
    }
};

// What one pass of the filter knows about a frame, n registers each, in this order; or about the last frame alone, if nobody
// asks for more: that stays in the first-level cache.
class States {
    const long n_, step_;
    VecArray all_;

  public:
    States(long n, long frames, bool kept) : n_(n), step_(kept ? 2 * n : 0) { all_.resize(2 * n * (kept ? frames + 1 : 1)); }
    vec* x(long t) { return all_.data() + step_ * t; }                // x̂_{t|t-1}, later x̂_{t|T}
    vec* innovation(long t) { return all_.data() + step_ * t + n_; }  // Cᵀ R⁻¹ e_t
};

// The filter of sequences with gaps, one per lane.
class OwnFilter {
    const System& s;
    VecArray parts_, log_det_, D_;

  public:
    const long n;

    explicit OwnFilter(const System& s) : s(s), n(s.n) {}
    const vec* part(long t, Part which) { return parts_.data() + (t * kParts + which) * n * n; }
    vec log_det(long t) { return log_det_.data()[t]; }

    void run(const Bundle& bundle, const double* nothing, Worker& worker) {
        const long size = n * n, T = bundle.longest;
        parts_.resize((T * kParts + 1) * size), log_det_.resize(T), D_.resize(2 * size + s.d);
        vec *D = D_.data(), *scratch = D + size, *y = scratch + size;
        for (long i = 0; i < size; ++i) parts_.data()[i] = splat(s.covar[i]);
        for (long t = 0; t < T; ++t) {
            worker.checkpoint_at(t);
            bundle.load(t, y, nothing);
            const vec log_R = information(y, D);
            vec *now = parts_.data() + t * kParts * size, *next = now + kParts * size;
            log_det_.data()[t] = log_R + advance(s.A, s.Q, D, now, next, scratch, n);
            const ivec goes_on = bundle.active(t + 1);  // behind the end V could grow without limit
            for (long i = 0; i < size; ++i) next[i] = goes_on ? next[i] : now[i];
        }
    }

  private:
    // D = Σ c_j c_jᵀ / R_j over the values that are there; returns Σ log 2π R_j.
    vec information(const vec* y, vec* D) const {
        vec log_R = {};
        std::fill_n(D, n * n, vec{});
        for (long j = 0; j < s.d; ++j) {
            const vec seen = y[j] == y[j] ? splat(1.0) : vec{};
            log_R += seen * (kLogTwoPi + std::log(s.R[j]));
            for (long i = 0; i < n; ++i)
                for (long h = 0; h <= i; ++h) D[i * n + h] += seen * (s.CR[j * n + i] * s.C[j * n + h]);
        }
        for (long i = 0; i < n; ++i)
            for (long h = 0; h < i; ++h) D[h * n + i] = D[i * n + h];
        return log_R;
    }
};

// x = M x.
inline void to_basis(const View<double>& M, vec* x, long n, vec* scratch) {
    times(scratch, M, x, n);
    std::copy_n(scratch, n, x);
}

// The filter of one system over a bundle. With P = Cᵀ R⁻¹ (y - ȳ), made for a block of frames by one product, the innovation is
// v = Cᵀ R⁻¹ e = P - D x̂, and eᵀ R⁻¹ e = (y - ȳ)ᵀ R⁻¹ (y - ȳ) - x̂ᵀ (P + v): no frame needs C x̂.
class Course {
    const System& s;
    const SteadyBasis& basis_;  // of the states from a frame on
    const Bundle& bundle_;
    VecArray own_;
    vec *apart_, *shifts_[2];    // (d,) from ȳ to the origin of the frames, (n,) CᵀR⁻¹ of it in either basis
    vec *projected_, *scratch_;  // (kProjected, n) CᵀR⁻¹ of frames, (3, n)
    vec score_ = {}, explained_ = {};

  public:
    States states;

    Course(const System& s, const SteadyBasis& basis, const Bundle& bundle, const Frames& frames, bool kept = true)
        : s(s), basis_(basis), bundle_(bundle), states(s.n, bundle.longest, kept) {
        own_.resize(s.d + (5 + kProjected) * s.n);
        apart_ = own_.data(), shifts_[0] = apart_ + s.d, shifts_[1] = shifts_[0] + s.n;
        projected_ = shifts_[1] + s.n, scratch_ = projected_ + kProjected * s.n;
        for (long j = 0; j < s.d; ++j) apart_[j] = frames.origin[j] - s.offset[j];
        product(shifts_[0], 1, transposed(s.CR.data(), s.n), view(apart_, 1), s.n, s.d, 1);
        if (basis.exists()) times(shifts_[1], transposed(basis.T.data(), s.n), shifts_[0], s.n);
        for (long i = 0; i < s.n; ++i) states.x(0)[i] = splat(s.mean[i]);
    }

    vec apart(long j) const { return apart_[j]; }

    // CᵀR⁻¹ of n frames of a block, kProjected at most, each in the basis of its states.
    void project(Frames& frames, long first, long n) {
        const std::vector<double>& CR = first < basis_.from ? s.CR : basis_.CR;
        product(projected_, s.n, view(frames.at(first), s.d), view(CR.data(), s.n), n, s.d, s.n);
        for (long t = std::max(first, basis_.from); first < basis_.from && t < first + n; ++t)
            to_basis(transposed(basis_.T.data(), s.n), projected_ + (t - first) * s.n, s.n, scratch_);
    }

    // The filter over a block of frames with gaps.
    void filter(Frames& frames, OwnFilter& f) {
        frames.each_few([&](long first, long n) {
            project(frames, first, n);
            for (long i = 0; i < n; ++i) step_of<0>(first + i, i, f);
        });
    }

    // Its step at frame t, which is in this row of those projected, without gaps.
    void step(long t, long row, const Filter& f) {
        switch (s.n) {
            case 2: return either_step<2>(t, row, f);
            case 3: return either_step<3>(t, row, f);
            case 4: return either_step<4>(t, row, f);
            case 5: return either_step<5>(t, row, f);
            case 6: return either_step<6>(t, row, f);
            case 7: return either_step<7>(t, row, f);
            case 8: return either_step<8>(t, row, f);
            default: return either_step<0>(t, row, f);
        }
    }

    // Whether so little is left of the squares, about ȳ or about the origin, that eᵀ R⁻¹ e must be made anew, frame by frame.
    bool lost(const Frames& frames) const {
        vec about = {};
        for (long j = 0; j < s.d; ++j) about += frames.squares[j] * (1.0 / s.R[j]);
        const vec all = squares(frames);
        return any(all - explained_ < kLeastLeft * vmax(all, about));
    }

    // log p(y) of every lane, after all frames. If much is lost, or values are missing, this takes states that were kept.
    vec score(const Frames& frames, bool gaps, const double* nothing) {
        return score_ - 0.5 * (gaps || lost(frames) ? residuals(nothing) : squares(frames) - explained_);
    }

  private:
    template <int N>
    void either_step(long t, long row, const Filter& f) {
        if (t < basis_.from) return step_of<N>(t, row, f);
        if (t == basis_.from) to_basis(view(basis_.inverse.data(), s.n), states.x(t), s.n, scratch_);
        steady_step<N>(t, row, f);
    }

    // A step with N states, which stay in registers; 0 for any number.
    template <int N, class Covariances>
    __attribute__((noinline)) void step_of(long t, long row, Covariances& f) {
        const long n = N ? N : s.n;
        vec own[N ? 3 * N : 1], *x = N ? own : scratch_, *v = x + n, *u = v + n;
        vec *from = states.x(t), *P = projected_ + row * n, explained = {}, quadratic = {};
        for (long i = 0; i < n; ++i) x[i] = from[i], P[i] += shifts_[0][i], v[i] = P[i];
        times(v, view(f.part(t, kD), n), x, n, Put::kSubtract);
        times(u, view(f.part(t, kVf), n), v, n);
        const ivec active = bundle_.active(t);
        for (long i = 0; i < n; ++i) {
            explained = fma(x[i], P[i] + v[i], explained), quadratic = fma(v[i], u[i], quadratic);
            from[n + i] = active ? v[i] : vec{}, u[i] += x[i];
        }
        times(states.x(t + 1), view(s.A, n), u, n);
        score_ -= active ? 0.5 * (wide(f.log_det(t)) - quadratic) : vec{};
        explained_ += active ? explained : vec{};
    }

    // The same in the steady basis.
    template <int N>
    __attribute__((noinline)) void steady_step(long t, long row, const Filter& f) {
        const long n = N ? N : s.n;
        vec own[N ? N : 1], *u = N ? own : scratch_;
        vec *x = states.x(t), *v = states.innovation(t), *P = projected_ + row * n, explained = {}, quadratic = {};
        const ivec active = bundle_.active(t);
        for (long i = 0; i < n; ++i) {
            const vec p = P[i] + shifts_[1][i], now = p - basis_.delta[i] * x[i], gained = basis_.w[i] * now;
            explained = fma(x[i], p + now, explained), quadratic = fma(now, gained, quadratic);
            u[i] = x[i] + gained, v[i] = active ? now : vec{};
        }
        times(states.x(t + 1), view(basis_.A.data(), n), u, n);
        score_ -= active ? 0.5 * (wide(f.log_det(t)) - quadratic) : vec{};
        explained_ += active ? explained : vec{};
    }

    // Σ_t (y - ȳ)ᵀ R⁻¹ (y - ȳ)
    vec squares(const Frames& frames) const {
        vec sum = {};
        for (long j = 0; j < s.d; ++j) sum += frames.squares_from(apart_[j], j) * (1.0 / s.R[j]);
        return sum;
    }

    // Σ_t eᵀ R⁻¹ e, each e by itself.
    vec residuals(const double* nothing) {
        vec sum = {};
        VecArray own;
        own.resize(s.d);
        vec* y = own.data();
        for (long t = 0; t < bundle_.longest; ++t) {
            bundle_.load(t, y, nothing);
            const double* C = t < basis_.from ? s.C : basis_.C.data();
            for (long j = 0; j < s.d; ++j) {
                vec e = y[j] - s.offset[j];
                for (long i = 0; i < s.n; ++i) e -= C[j * s.n + i] * states.x(t)[i];
                sum += e == e ? e * e * (1.0 / s.R[j]) : vec{};
            }
        }
        return sum;
    }
};

// Replaces x̂_{t|t-1} by x̂_{t|T}, or zero behind the end, given r of the frame after, which it moves on.
template <class Covariances>
void smooth_mean(Covariances& f, long t, ivec active, States& states, vec* r, vec* scratch) {
    const long n = f.n;
    std::copy_n(r, n, scratch);
    times(r, view(f.part(t, kU), n), states.innovation(t), n);
    times(r, transposed(f.part(t, kL), n), scratch, n, Put::kAdd);
    vec* x = states.x(t);
    times(x, view(f.part(t, kV), n), r, n, Put::kAdd);
    for (long i = 0; i < n; ++i) x[i] = active ? x[i] : vec{};
}

// The same in the steady basis.
inline void smooth_steady_mean(const SteadyBasis& basis, long n, long t, ivec active, States& states, vec* r, vec* scratch) {
    vec *x = states.x(t), *v = states.innovation(t);
    times(scratch, transposed(basis.A.data(), n), r, n);
    for (long i = 0; i < n; ++i) {
        r[i] = basis.w[i] * (v[i] + scratch[i]);
        x[i] = active ? x[i] + r[i] : vec{};
    }
}

// The smoother of sequences with gaps: sink(t, means, covariances, lag-one covariances with the frame after), from the last
// frame to the first. The last of these is empty where there is no frame after.
template <class Sink>
void smooth_own(OwnFilter& f, const Bundle& bundle, States& states, Worker& worker, Sink sink) {
    const long n = f.n, size = n * n;
    VecArray own;
    own.resize(5 * size + 2 * n);
    vec *N = own.data(), *covar = N + size, *lag = covar + size, *a = lag + size, *b = a + size, *r = b + size;
    std::fill_n(N, size, vec{}), std::fill_n(r, n, vec{});
    for (long t = bundle.longest - 1; t >= 0; --t) {
        worker.checkpoint_at(t);
        const vec *V = f.part(t, kV), *L = f.part(t, kL);
        product(a, view(L, n), view(V, n), n);  // (I - V_{t+1} N_t) L V_t
        std::copy_n(a, size, lag);
        if (t + 1 < bundle.longest) {
            product(b, view(f.part(t + 1, kV), n), view(N, n), n);
            product(lag, view(b, n), view(a, n), n, Put::kSubtract);
        }
        const ivec goes_on = bundle.active(t + 1);
        for (long i = 0; i < size; ++i) lag[i] = goes_on ? lag[i] : vec{};
        product(a, view(N, n), view(L, n), n);
        std::copy_n(f.part(t, kUD), size, N);
        product(N, transposed(L, n), view(a, n), n, Put::kAdd);
        product(a, view(N, n), view(V, n), n);
        std::copy_n(V, size, covar);
        product(covar, view(V, n), view(a, n), n, Put::kSubtract);
        make_symmetric(covar, n);
        smooth_mean(f, t, bundle.active(t), states, r, r + n);
        sink(t, states.x(t), covar, lag);
    }
}

// Sums of one system, in lanes.
class LaneSums {
    VecArray all_, scratch_;

  public:
    const long n, d;

    explicit LaneSums(const System& s) : n(s.n), d(s.d) {
        const long size = 4 * n * n + 2 * n + d * (n + 2);
        all_.resize(size);
        std::fill_n(all_.data(), size, vec{});
    }
    vec* first_second() { return all_.data(); }
    vec* before() { return first_second() + n * n; }
    vec* last() { return before() + n * n; }
    vec* lag() { return last() + n * n; }
    vec* first() { return lag() + n * n; }
    vec* x() { return first() + n; }
    vec* y() { return x() + n; }
    vec* yy() { return y() + d; }
    vec* yx() { return yy() + d; }

    // The smoothed means of all frames: w x, w x xᵀ and w x_{t+1} xᵀ. Returns Σ_t x.
    const vec* add_means(const Bundle& bundle, vec w, States& states) {
        const long T = bundle.longest, step = 2 * n;
        scratch_.resize(n * n + n + d * n);
        vec *a = scratch_.data(), *sums = a + n * n;
        product(a, n, View<vec>{states.x(1), 1, step}, View<vec>{states.x(0), step, 1}, n, T - 1, n);
        for (long i = 0; i < n * n; ++i) lag()[i] += w * a[i];
        product(a, n, View<vec>{states.x(0), 1, step}, View<vec>{states.x(0), step, 1}, n, T, n);
        for (long i = 0; i < n; ++i) {
            sums[i] = vec{};
            for (long t = 0; t < T; ++t) sums[i] += states.x(t)[i];
            x()[i] += w * sums[i], first()[i] += w * states.x(0)[i];
            for (long j = 0; j <= i; ++j) {
                vec end = {};
                for (int l = 0; l < bundle.lanes; ++l) end[l] = states.x(bundle.length[l] - 1)[i][l] * states.x(bundle.length[l] - 1)[j][l];
                first_second()[i * n + j] += w * states.x(0)[i] * states.x(0)[j];
                before()[i * n + j] += w * (a[i * n + j] - end), last()[i * n + j] += w * end;
            }
        }
        return sums;
    }

    // w (y - origin) xᵀ of a block of frames.
    void add_cross(Frames& frames, vec w, States& states) {
        vec* cross = scratch_.data() + n * n + n;
        product(cross, n, View<vec>{frames.at(frames.first), 1, d}, View<vec>{states.x(frames.first), 2 * n, 1}, d, frames.n, n);
        for (long i = 0; i < d * n; ++i) yx()[i] = fma(w, cross[i], yx()[i]);
    }

    // What is left of the sums over y - ȳ. `means` is Σ_t x.
    void add_origin(const Frames& frames, const Course& course, vec w, const vec* means) {
        for (long j = 0; j < d; ++j) {
            const vec apart = course.apart(j);
            y()[j] += w * frames.sum_from(apart, j), yy()[j] += w * frames.squares_from(apart, j);
            for (long i = 0; i < n; ++i) yx()[j * n + i] += w * apart * means[i];
        }
    }

    // The covariances of frame t; of symmetric ones the lower triangle.
    void add_covariances(long t, const Bundle& bundle, vec w, const vec* covar, const vec* lag_covar) {
        const ivec goes_on = bundle.active(t + 1);
        const vec here = bundle.active(t) ? w : vec{}, on = goes_on ? w : vec{}, ends = here - on;
        for (long i = 0; i < n; ++i) {
            for (long j = 0; j <= i; ++j) {
                before()[i * n + j] += on * covar[i * n + j];
                last()[i * n + j] += ends * covar[i * n + j];
                if (t == 0) first_second()[i * n + j] += here * covar[i * n + j];
            }
            for (long j = 0; j < n; ++j) lag()[i * n + j] += on * lag_covar[i * n + j];
        }
    }

    // Its observations; `second` is E[x xᵀ]. A missing value is C x + noise.
    void add_observations(const System& s, vec w, const vec* frame, const vec* means, const vec* second) {
        for (long j = 0; j < d; ++j) {
            const ivec seen = frame[j] == frame[j];
            const vec value = seen ? frame[j] - s.offset[j] : vec{};
            vec known = value, square = value * value;
            const bool gap = any(~seen);
            if (gap) {
                vec expected = {}, spread = splat(s.R[j]);
                for (long i = 0; i < n; ++i) {
                    vec row = {};
                    for (long h = 0; h < n; ++h) row += s.C[j * n + h] * second[i * n + h];
                    expected += s.C[j * n + i] * means[i], spread += s.C[j * n + i] * row;
                    yx()[j * n + i] += seen ? vec{} : w * row;
                }
                known = seen ? value : expected, square = seen ? square : spread;
            }
            for (long i = 0; i < n; ++i) yx()[j * n + i] += w * value * means[i];
            y()[j] += w * known, yy()[j] += w * square;
        }
    }
};

// One call: all sequences under all systems.
class Kalman {
  public:
    Kalman(const Systems& systems, const Sequences& sequences, Call& call)
        : systems(all_systems(systems)), sequences(sequences), call(call), order(sequences.n),
          nothing(sequences.d, std::numeric_limits<double>::quiet_NaN()), origins(sequences.n * sequences.d), bases(systems.K) {
        const auto longer = [&](long a, long b) { return sequences.length(a) > sequences.length(b); };
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), longer);
    }

    // log p(y_i | system k), (n, K).
    void score(double* scores) {
        each_bundle([&](const Bundle& bundle, bool gaps) {
            Frames frames(bundle, origins, K() <= kTogether ? kProjected : kFramesInLanes);  // if once through will do, few at a time
            for (long k = 0; k < K(); k += kTogether)
                filtered(bundle, gaps, frames, k, std::min(k + kTogether, K()), scores, false);
            return !frames.are_incomplete();
        });
    }

    // The same, z_ik ∝ ω_k p(y_i | k), (n, K), and the sums with these weights. Sequences that cannot show in a system's sums,
    // by what it has of those before, are left out.
    void add_up(const double* log_weights, double* scores, double* z, const SystemSums& sums) {
        std::vector<double> mass(K());
        std::vector<std::unique_ptr<LaneSums>> lanes[2];  // of sequences without gaps, in the steady basis if it exists; with gaps
        std::vector<std::vector<double>> ends(K(), std::vector<double>(sequences.length(order[0])));
        for (auto& some : lanes)
            for (const System& s : systems) some.emplace_back(new LaneSums(s));
        each_bundle([&](const Bundle& bundle, bool gaps) {
            Frames frames(bundle, origins, kFramesInLanes);
            const Courses courses = filtered(bundle, gaps, frames, 0, K(), scores);
            if (frames.are_incomplete()) return false;
            assign(bundle, log_weights, scores, z);
            std::vector<Share> shares;
            for (long k = 0; k < K(); ++k) {
                vec w = {};
                for (int l = 0; l < bundle.lanes; ++l) w[l] = z[bundle.sequence[l] * K() + k];
                mass[k] += sum(w);
                if (any(w > kNegligibleShare * mass[k] / static_cast<double>(sequences.n)))
                    shares.push_back({k, w, *courses[k], *lanes[gaps][k]});
            }
            if (!gaps) add_shared(bundle, frames, shares, ends);
            for (const Share& share : shares)
                if (gaps) add_own(bundle, share);
            return true;
        });
        for (long k = 0; k < K(); ++k) add(k, *lanes[0][k], bases[k].T, sums), add(k, *lanes[1][k], {}, sums);
        for (size_t g = 0; g < shared.size(); ++g) add_covariances(*shared[g], g * kLanes, ends, sums, call.caller);
    }

    // The moments of the states of the first system, frame by frame.
    void smooth(double* means, double* covars, double* lags) {
        const System& s = systems[0];
        const long n = s.n, size = n * n;
        OwnFilter f(s);
        each_bundle([&](const Bundle& bundle, bool) {
            Frames frames(bundle, nothing.data(), s);
            Course course(s, no_basis, bundle, frames);
            f.run(bundle, nothing.data(), call.caller);
            frames.each_block(call.caller, [&] { course.filter(frames, f); });
            smooth_own(f, bundle, course.states, call.caller, [&](long t, const vec* x, const vec* covar, const vec* lag) {
                for (int l = 0; l < bundle.lanes; ++l) {
                    if (t >= bundle.length[l]) continue;
                    const long at = sequences.offsets[bundle.sequence[l]] + t;
                    scatter_row(l, x, n, means + at * n);
                    scatter_row(l, covar, size, covars + at * size);
                    scatter_row(l, lag, size, lags + at * size);
                }
            });
            return true;
        });
    }

  private:
    const std::vector<System> systems;
    const Sequences& sequences;
    Call& call;
    std::vector<long> order;  // longest first
    const std::vector<double> nothing;
    std::vector<double> origins;  // of every sequence: the mean of its first frames
    std::vector<std::unique_ptr<FilterInLanes>> shared;
    std::vector<Filter> filters;
    std::vector<SteadyBasis> bases;  // of what these filter
    const SteadyBasis no_basis;

    long K() const { return static_cast<long>(systems.size()); }

    // Calls work(bundle, gaps) for all sequences, those with gaps apart from the others. If it comes upon gaps nobody knew of,
    // it returns false, and the bundle's sequences come again.
    template <class Work>
    void each_bundle(Work work) {
        const std::vector<long> late = each_bundle(order, kProjected, work);
        each_bundle(late, kAllFrames, work);
    }

    // The same for some sequences, looking for gaps in their first `most` frames. Returns those that have others.
    template <class Work>
    std::vector<long> each_bundle(const std::vector<long>& chosen, long most, Work work) {
        std::vector<long> waiting[2], late;
        const auto finish = [&](bool gaps) {
            std::vector<long>& some = waiting[gaps];
            if (some.empty()) return;
            if (!work(Bundle(sequences, some.data(), static_cast<int>(some.size()), gaps, most == kAllFrames), gaps))
                late.insert(late.end(), some.begin(), some.end());
            some.clear();
        };
        for (long i : chosen) {
            const bool gaps = begins_with_gaps(i, most);
            waiting[gaps].push_back(i);
            if (waiting[gaps].size() == kLanes) finish(gaps);
        }
        finish(false), finish(true);
        return late;
    }

    // Finds the mean of the first frames of sequence i. Returns whether there are gaps in them, which it shows at no cost.
    bool begins_with_gaps(long i, long most) {
        const long d = sequences.d, n = std::min(sequences.length(i), most);
        const double* y = sequences.begin(i);
        double *mean = &origins[i * d], zero = 0;
        std::fill_n(mean, d, 0.0);
        for (long t = 0; t < n; ++t, y += d)
            for (long j = 0; j < d; ++j) mean[j] += y[j];
        for (long j = 0; j < d; ++j) mean[j] /= static_cast<double>(n), zero += 0.0 * mean[j];
        return zero != zero;
    }

    // The filters that sequences without gaps share, when the first of these comes; and their bases, where most frames are
    // steady and enough to pay for one.
    void make_filters() {
        const long longest = sequences.length(order[0]);
        for (long k = static_cast<long>(filters.size()); k < K(); ++k) {
            const int lane = static_cast<int>(k % kLanes);
            if (lane == 0) shared.emplace_back(new FilterInLanes(systems, k, longest, call.caller));
            FilterInLanes& all = *shared.back();
            filters.emplace_back(all, lane);
            const long steady = all.kept() - 1;
            if (2 * steady < longest && sequences.n * longest > kFramesForBasis)
                bases[k].find(systems[k], all.of_lane(lane, steady, kV), steady);
        }
    }

    using Courses = std::vector<std::unique_ptr<Course>>;

    // One system's weight of every lane, its way through the bundle, and its sums.
    struct Share {
        long k;
        vec w;
        Course& course;
        LaneSums& lanes;
    };

    // The filters of some systems over a bundle, and what they say about it in `scores`. Their states are kept, or not.
    Courses filtered(const Bundle& bundle, bool gaps, Frames& frames, long from, long to, double* scores, bool kept = true) {
        Courses courses;
        if (gaps) {
            for (long k = from; k < to; ++k) courses.push_back(filtered_alone(bundle, k, scores));
            return courses;
        }
        make_filters();
        for (long k = from; k < to; ++k) courses.emplace_back(new Course(systems[k], bases[k], bundle, frames, kept));
        frames.each_block(call.caller, [&] {
            frames.each_few([&](long first, long n) {
                for (std::unique_ptr<Course>& course : courses) course->project(frames, first, n);
                for (long i = 0; i < n; ++i)  // systems in turns: each waits for its last frame
                    for (long k = from; k < to; ++k) courses[k - from]->step(first + i, i, filters[k]);
            });
        });
        for (long k = from; k < to; ++k) {
            if (!kept && courses[k - from]->lost(frames))
                filtered(bundle, gaps, frames, k, k + 1, scores);
            else
                put(bundle, courses[k - from]->score(frames, false, nothing.data()), scores + k, K());
        }
        return courses;
    }

    // The same for one system and sequences with gaps.
    std::unique_ptr<Course> filtered_alone(const Bundle& bundle, long k, double* scores) {
        Frames frames(bundle, nothing.data(), systems[k]);
        std::unique_ptr<Course> course(new Course(systems[k], no_basis, bundle, frames));
        OwnFilter f(systems[k]);
        f.run(bundle, nothing.data(), call.caller);
        frames.each_block(call.caller, [&] { course->filter(frames, f); });
        put(bundle, course->score(frames, true, nothing.data()), scores + k, K());
        return course;
    }

    static void put(const Bundle& bundle, vec values, double* to, long step) {
        for (int l = 0; l < bundle.lanes; ++l) to[bundle.sequence[l] * step] = values[l];
    }

    void assign(const Bundle& bundle, const double* log_weights, const double* scores, double* z) const {
        for (int l = 0; l < bundle.lanes; ++l) {
            const double* from = scores + bundle.sequence[l] * K();
            double *to = z + bundle.sequence[l] * K(), top = -std::numeric_limits<double>::infinity(), total = 0;
            for (long k = 0; k < K(); ++k) top = std::max(top, from[k] + log_weights[k]);
            for (long k = 0; k < K(); ++k) total += to[k] = std::exp(from[k] + log_weights[k] - top);
            for (long k = 0; k < K(); ++k) to[k] /= total;
        }
    }

    void add_shared(const Bundle& bundle, Frames& frames, const std::vector<Share>& shares, std::vector<std::vector<double>>& ends) {
        const long n = systems[0].n;
        std::vector<const vec*> means;
        VecArray own;
        own.resize(2 * n);
        vec* r = own.data();
        for (const Share& share : shares) {
            smooth_shared(bundle, share, r);
            means.push_back(share.lanes.add_means(bundle, share.w, share.course.states));
            for (int l = 0; l < bundle.lanes; ++l) ends[share.k][bundle.length[l] - 1] += share.w[l];
        }
        frames.each_block(call.caller, [&] {
            for (const Share& share : shares) share.lanes.add_cross(frames, share.w, share.course.states);
        });
        for (size_t i = 0; i < shares.size(); ++i)
            shares[i].lanes.add_origin(frames, shares[i].course, shares[i].w, means[i]);
    }

    // The smoothed means of all frames, in the steady basis if there is one: also of those before it.
    void smooth_shared(const Bundle& bundle, const Share& share, vec* r) {
        const long n = systems[0].n;
        const SteadyBasis& basis = bases[share.k];
        States& states = share.course.states;
        std::fill_n(r, n, vec{});
        for (long t = bundle.longest - 1; t >= 0; --t) {
            call.caller.checkpoint_at(t);
            if (t >= basis.from) {
                smooth_steady_mean(basis, n, t, bundle.active(t), states, r, r + n);
                continue;
            }
            if (t == basis.from - 1) to_basis(transposed(basis.inverse.data(), n), r, n, r + n);
            smooth_mean(filters[share.k], t, bundle.active(t), states, r, r + n);
        }
        for (long t = 0; basis.exists() && t < std::min(basis.from, bundle.longest); ++t)
            to_basis(view(basis.inverse.data(), n), states.x(t), n, r);
    }

    void add_own(const Bundle& bundle, const Share& share) {
        const System& s = systems[share.k];
        const long n = s.n;
        OwnFilter f(s);
        f.run(bundle, nothing.data(), call.caller);
        VecArray own;
        own.resize(n * n + s.d);
        vec *second = own.data(), *frame = second + n * n;
        smooth_own(f, bundle, share.course.states, call.caller, [&](long t, const vec* x, const vec* covar, const vec* lag) {
            share.lanes.add_covariances(t, bundle, share.w, covar, lag);
            for (long i = 0; i < n; ++i)
                for (long j = 0; j < n; ++j) second[i * n + j] = covar[i * n + j] + x[i] * x[j];
            bundle.load(t, frame, nothing.data());
            share.lanes.add_observations(s, bundle.active(t) ? share.w : vec{}, frame, x, second);
        });
        share.lanes.add_means(bundle, share.w, share.course.states);
    }

    // Adds the sums of all lanes, whose states are in the basis T, or in the system's own if it is empty.
    void add(long k, LaneSums& lanes, const std::vector<double>& T, const SystemSums& sums) const {
        const long n = systems[k].n, d = systems[k].d, size = n * n;
        std::vector<double> some(std::max(d, n) * n), changed(some.size());
        const auto put = [&](double* to, long n_rows, bool on_both_sides) {
            if (!T.empty()) {
                small_product(changed.data(), view(some.data(), n), transposed(T.data(), n), n_rows, n, n);
                std::swap(some, changed);
            }
            if (!T.empty() && on_both_sides) {
                small_product(changed.data(), view(T.data(), n), view(some.data(), n), n, n, n);
                std::swap(some, changed);
            }
            for (long e = 0; e < n_rows * n; ++e) to[e] += some[e];
        };
        const auto rows = [&](const vec* from, double* to, long n_rows) {
            for (long e = 0; e < n_rows * n; ++e) some[e] = sum(from[e]);
            put(to + k * n_rows * n, n_rows, false);
        };
        const auto square = [&](const vec* from, bool lower, double* to) {
            for (long i = 0; i < n; ++i)
                for (long j = 0; j < n; ++j) some[i * n + j] = sum(lower ? from[std::max(i, j) * n + std::min(i, j)] : from[i * n + j]);
            put(to + k * size, n, true);
        };
        rows(lanes.first(), sums.first, 1), rows(lanes.x(), sums.x, 1), rows(lanes.yx(), sums.yx, d);
        square(lanes.first_second(), true, sums.first_second), square(lanes.lag(), false, sums.lag);
        square(lanes.before(), true, sums.xx_before), square(lanes.before(), true, sums.xx), square(lanes.last(), true, sums.xx);
        for (long j = 0; j < d; ++j) sums.y[k * d + j] += sum(lanes.y()[j]), sums.yy[k * d + j] += sum(lanes.yy()[j]);
    }
};

void check_frames(const Systems& systems, const Sequences& sequences) {
    sequences.check_dimensions(systems.d);
    if (sequences.n < 1) refuse("offsets must have at least one sequence.");
}

void filter_systems(const Systems& systems, const Sequences& sequences, Output scores, const Run& run) {
    check_frames(systems, sequences);
    double* to = doubles_out(scores, "scores", {sequences.n, systems.K});
    run_call(run, [&](Call& call) { Kalman(systems, sequences, call).score(to); });
}

void system_expectations(const Systems& systems, Input log_weights, const Sequences& sequences, Output scores, Output z,
                         SystemSums sums, const Run& run) {
    check_frames(systems, sequences), sums.check(systems);
    const double* weights = doubles(log_weights, "log_weights", {systems.K});
    double *to = doubles_out(scores, "scores", {sequences.n, systems.K}), *shares = doubles_out(z, "z", {sequences.n, systems.K});
    run_call(run, [&](Call& call) { Kalman(systems, sequences, call).add_up(weights, to, shares, sums); });
}

void smooth_states(const Systems& systems, const Sequences& sequences, Output means, Output covars, Output lags, const Run& run) {
    check_frames(systems, sequences);
    const long n = systems.n, T = size_of(sequences.arrays[0], 0);
    double *to_means = doubles_out(means, "means", {T, n}), *to_covars = doubles_out(covars, "covars", {T, n, n});
    double* to_lags = doubles_out(lags, "lags", {T, n, n});
    run_call(run, [&](Call& call) { Kalman(systems, sequences, call).smooth(to_means, to_covars, to_lags); });
}

}  // namespace

void bind_lds(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Systems>(m, "Systems")
        .def(nb::init<Input, Input, Input, Input, Input, Input, Input>(), nb::kw_only(), "A"_a, "C"_a, "Q"_a, "R"_a, "mean"_a,
             "covar"_a, "offset"_a);
    nb::class_<SystemSums>(m, "SystemSums")
        .def(nb::init<Output, Output, Output, Output, Output, Output, Output, Output, Output>(), nb::kw_only(), "first"_a,
             "first_second"_a, "x"_a, "xx"_a, "xx_before"_a, "lag"_a, "y"_a, "yx"_a, "yy"_a);
    m.def("filter_systems", &filter_systems, nb::kw_only(), "systems"_a, "sequences"_a, "scores"_a, "run"_a);
    m.def("system_expectations", &system_expectations, nb::kw_only(), "systems"_a, "log_weights"_a, "sequences"_a, "scores"_a,
          "z"_a, "sums"_a, "run"_a);
    m.def("smooth_states", &smooth_states, nb::kw_only(), "systems"_a, "sequences"_a, "means"_a, "covars"_a, "lags"_a, "run"_a);
}
