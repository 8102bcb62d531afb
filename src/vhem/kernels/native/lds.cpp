// Kalman filter, smoother and sums of EM for linear dynamical systems, kLanes sequences at a time.
//
// Covariances do not depend on the observations: sequences without gaps share those of their system (Filter). What is
// missing changes them, so sequences with gaps have their own, lane by lane (OwnFilter); a frame behind the end of a lane's
// sequence is one with nothing in it.
#include <limits>
#include <memory>
#include <numeric>

#include "lds.hpp"

namespace {

// Up to kLanes sequences of similar length.
struct Bundle {
    const long d;
    int lanes;
    long sequence[kLanes], length[kLanes], longest = 0;
    const double* rows[kLanes];
    vec lengths = {};

    Bundle(const Sequences& all, const long* chosen, int lanes) : d(all.d), lanes(lanes) {
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

// One system's observation matrix as the filter reads it: kLanes dimensions at a time, padded with zeros.
class Observer {
    const long n_;
    std::vector<double> C_, CR_, offset_, precision_;  // [block][state][dimension] twice, [dimension] twice

  public:
    const long padded;  // dimensions

    explicit Observer(const System& s)
        : n_(s.n), C_((s.d + kLanes) * s.n), CR_(C_.size()), offset_(s.d + kLanes), precision_(s.d + kLanes),
          padded((s.d + kLanes - 1) / kLanes * kLanes) {
        for (long j = 0; j < s.d; ++j) {
            offset_[j] = s.offset[j], precision_[j] = 1.0 / s.R[j];
            for (long i = 0; i < n_; ++i) {
                const long at = (j / kLanes * n_ + i) * kLanes + j % kLanes;
                C_[at] = s.C[j * n_ + i], CR_[at] = s.CR[j * n_ + i];
            }
        }
    }

    // e = y - ȳ - C x: leaves Cᵀ R⁻¹ (y - ȳ), which does not wait for x, in `projected`, and returns eᵀ R⁻¹ e.
    template <bool Gaps>
    vec project(const vec* y, const vec* x, vec* projected) const {
        vec square[2] = {};
        std::fill_n(projected, n_, vec{});
        const double *C = C_.data(), *CR = CR_.data();
        for (long j = 0; j < padded; j += kLanes) {
            vec e[kLanes];
            for (int b = 0; b < kLanes; ++b) {
                e[b] = y[j + b] - offset_[j + b];
                if (Gaps) e[b] = e[b] == e[b] ? e[b] : vec{};
            }
            for (long i = 0; i < n_; ++i, CR += kLanes) {
                vec even = projected[i], odd = {};
                for (int b = 0; b < kLanes; b += 2) even = fma(splat(CR[b]), e[b], even), odd = fma(splat(CR[b + 1]), e[b + 1], odd);
                projected[i] = even + odd;
            }
            for (long i = 0; i < n_; ++i, C += kLanes)
                for (int b = 0; b < kLanes; ++b) e[b] -= C[b] * x[i];
            for (int b = 0; b < kLanes; ++b) {
                if (Gaps) e[b] = y[j + b] == y[j + b] ? e[b] : vec{};
                square[b % 2] = fma(e[b] * e[b], splat(precision_[j + b]), square[b % 2]);
            }
        }
        return square[0] + square[1];
    }
};

// What one pass of the filter knows about a frame, n registers each, in this order.
struct States {
    const long n;
    VecArray all;

    explicit States(long n) : n(n) {}
    vec* x(long t) { return all.data() + 2 * n * t; }              // x̂_{t|t-1}, later x̂_{t|T}
    vec* innovation(long t) { return all.data() + 2 * n * t + n; }  // Cᵀ Σ_t⁻¹ e_t
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

// log p(y) of every lane; x̂ and innovations of every frame go into `states`. With P = Cᵀ R⁻¹ (y - ȳ), Cᵀ R⁻¹ e = P - D x̂ and
// x̂_{t+1} = L x̂_t + gain P: one short product is all that a frame waits for.
template <bool Gaps, class Covariances>
vec run_filter(const System& s, const Observer& observer, Covariances& f, const Bundle& bundle, const double* nothing,
               States& states, Worker& worker) {
    const long n = s.n, T = bundle.longest;
    states.all.resize(2 * n * (T + 1));
    VecArray own;
    own.resize(observer.padded + 2 * n);
    vec *y = own.data(), *projected = y + observer.padded, *moved = projected + n, score = {};
    std::fill_n(y, observer.padded, vec{});
    for (long i = 0; i < n; ++i) states.x(0)[i] = splat(s.mean[i]);
    for (long t = 0; t < T; ++t) {
        worker.checkpoint_at(t);
        bundle.load(t, y, Gaps ? nothing : nullptr);
        vec *x = states.x(t), *innovation = states.innovation(t);
        vec quadratic = observer.project<Gaps>(y, x, projected);
        times(states.x(t + 1), view(f.part(t, kGain), n), projected, n);
        times(states.x(t + 1), view(f.part(t, kL), n), x, n, Put::kAdd);
        times(projected, view(f.part(t, kD), n), x, n, Put::kSubtract);
        times(moved, view(f.part(t, kVf), n), projected, n);
        for (long i = 0; i < n; ++i) quadratic -= moved[i] * projected[i];
        const ivec active = bundle.active(t);
        score -= active ? 0.5 * (wide(f.log_det(t)) + quadratic) : vec{};
        times(innovation, view(f.part(t, kU), n), projected, n);
        for (long i = 0; i < n; ++i) innovation[i] = active ? innovation[i] : vec{};
    }
    return score;
}

// Replaces x̂_{t|t-1} by x̂_{t|T}, or zero behind the end, given r of the frame after, which it moves on.
template <class Covariances>
void smooth_mean(Covariances& f, long t, ivec active, States& states, vec* r, vec* scratch) {
    const long n = f.n;
    std::copy_n(r, n, scratch);
    std::copy_n(states.innovation(t), n, r);
    times(r, transposed(f.part(t, kL), n), scratch, n, Put::kAdd);
    vec* x = states.x(t);
    times(x, view(f.part(t, kV), n), r, n, Put::kAdd);
    for (long i = 0; i < n; ++i) x[i] = active ? x[i] : vec{};
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

    LaneSums(const System& s, bool gaps) : n(s.n), d(s.d) {
        const long size = 4 * n * n + 2 * n + (gaps ? d * (n + 2) : 0);
        all_.resize(size);
        std::fill_n(all_.data(), size, vec{});
    }
    vec* first_second() { return all_.data(); }
    vec* before() { return first_second() + n * n; }
    vec* last() { return before() + n * n; }
    vec* lag() { return last() + n * n; }
    vec* first() { return lag() + n * n; }
    vec* x() { return first() + n; }
    vec* y() { return x() + n; }  // of sequences with gaps: those of others are summed along the dimensions
    vec* yy() { return y() + d; }
    vec* yx() { return yy() + d; }

    // The smoothed means of all frames: w x, w x xᵀ and w x_{t+1} xᵀ.
    void add_means(const Bundle& bundle, vec w, States& states) {
        const long T = bundle.longest, step = 2 * n;
        scratch_.resize(n * n);
        vec* a = scratch_.data();
        product(a, n, View<vec>{states.x(1), 1, step}, View<vec>{states.x(0), step, 1}, n, T - 1, n);
        for (long i = 0; i < n * n; ++i) lag()[i] += w * a[i];
        product(a, n, View<vec>{states.x(0), 1, step}, View<vec>{states.x(0), step, 1}, n, T, n);
        for (long i = 0; i < n; ++i) {
            vec sum = {};
            for (long t = 0; t < T; ++t) sum += states.x(t)[i];
            x()[i] += w * sum, first()[i] += w * states.x(0)[i];
            for (long j = 0; j <= i; ++j) {
                vec end = {};
                for (int l = 0; l < bundle.lanes; ++l) end[l] = states.x(bundle.length[l] - 1)[i][l] * states.x(bundle.length[l] - 1)[j][l];
                first_second()[i * n + j] += w * states.x(0)[i] * states.x(0)[j];
                before()[i * n + j] += w * (a[i * n + j] - end), last()[i * n + j] += w * end;
            }
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

// Σ_t (y_t - ȳ) x_tᵀ of one sequence, J registers of dimensions and I states at a time, transposed, times w.
template <int I, int J>
inline void add_cross(const double* y, const double* offset, const double* x, long T, long d, long x_step, int last, double w,
                      double* to, long to_step) {
    vec sums[I][J] = {}, origin[J];
    for (int b = 0; b < J; ++b) origin[b] = load_partial(offset + b * kLanes, b + 1 < J ? kLanes : last);
    for (long t = 0; t < T; ++t, y += d, x += x_step) {
        vec row[J];
        for (int b = 0; b < J; ++b) row[b] = load_partial(y + b * kLanes, b + 1 < J ? kLanes : last) - origin[b];
        for (int i = 0; i < I; ++i)
            for (int b = 0; b < J; ++b) sums[i][b] = fma(splat(x[i * kLanes]), row[b], sums[i][b]);
    }
    for (int i = 0; i < I; ++i)
        for (int b = 0; b < J; ++b) {
            double* at = to + i * to_step + b * kLanes;
            store(at, load(at) + w * sums[i][b]);
        }
}

// Σ_t (y_t - ȳ) and its squares, likewise.
template <int J>
inline void add_squares(const double* y, const double* offset, long T, long d, int last, double w, double* sum, double* square) {
    vec first[J] = {}, second[J] = {}, origin[J];
    for (int b = 0; b < J; ++b) origin[b] = load_partial(offset + b * kLanes, b + 1 < J ? kLanes : last);
    for (long t = 0; t < T; ++t, y += d)
        for (int b = 0; b < J; ++b) {
            const vec row = load_partial(y + b * kLanes, b + 1 < J ? kLanes : last) - origin[b];
            first[b] += row, second[b] = fma(row, row, second[b]);
        }
    for (int b = 0; b < J; ++b) {
        store(sum + b * kLanes, load(sum + b * kLanes) + w * first[b]);
        store(square + b * kLanes, load(square + b * kLanes) + w * second[b]);
    }
}

// Sums over observations without gaps, whose lanes are dimensions; rows are padded to whole registers.
struct ObservationSums {
    const long n, d, step;
    std::vector<double> y, yy, yx;  // (step,), (step,), (n, step)

    explicit ObservationSums(const System& s)
        : n(s.n), d(s.d), step((d + kLanes - 1) / kLanes * kLanes), y(step), yy(step), yx(n * step) {}

    void add(const System& s, const double* frames, long T, const double* x, long x_step, double w) {
        for (long j = 0; j < d; j += 2 * kLanes) {
            const bool two = j + kLanes < d;
            const int last = static_cast<int>(std::min<long>(kLanes, d - j - (two ? kLanes : 0)));
            if (two) add_block<2>(s, frames, T, x, x_step, w, j, last);
            else add_block<1>(s, frames, T, x, x_step, w, j, last);
        }
    }

  private:
    template <int J>
    void add_block(const System& s, const double* frames, long T, const double* x, long x_step, double w, long j, int last) {
        constexpr int I = 4;
        long i = 0;
        for (; i + I <= n; i += I)
            add_cross<I, J>(frames + j, s.offset + j, x + i * kLanes, T, d, x_step, last, w, &yx[i * step + j], step);
        if (n - i == 3) add_cross<3, J>(frames + j, s.offset + j, x + i * kLanes, T, d, x_step, last, w, &yx[i * step + j], step);
        if (n - i == 2) add_cross<2, J>(frames + j, s.offset + j, x + i * kLanes, T, d, x_step, last, w, &yx[i * step + j], step);
        if (n - i == 1) add_cross<1, J>(frames + j, s.offset + j, x + i * kLanes, T, d, x_step, last, w, &yx[i * step + j], step);
        add_squares<J>(frames + j, s.offset + j, T, d, last, w, &y[j], &yy[j]);
    }
};

// One call: all sequences under all systems.
class Kalman {
  public:
    Kalman(const Systems& systems, const Sequences& sequences, Call& call)
        : systems(all_systems(systems)), observers(this->systems.begin(), this->systems.end()), sequences(sequences), call(call), order(sequences.n),
          nothing(sequences.d, std::numeric_limits<double>::quiet_NaN()) {
        std::iota(order.begin(), order.end(), 0);
        std::vector<char> broken(sequences.n);
        for (long i = 0; i < sequences.n; ++i) {
            double zero = 0;  // or NaN: quicker than to look at one number after the other
            const double *begin = sequences.begin(i), *end = sequences.begin(i + 1);
            for (const double* y = begin; y < end; y += kLanes) zero += sum(0.0 * load_partial(y, static_cast<int>(std::min<long>(kLanes, end - y))));
            broken[i] = zero != zero;
        }
        std::stable_sort(order.begin(), order.end(), [&](long a, long b) {
            return broken[a] != broken[b] ? broken[a] < broken[b] : sequences.length(a) > sequences.length(b);
        });
        whole = std::count(broken.begin(), broken.end(), 0);
        for (long k = 0; whole && k < systems.K; ++k) {
            if (k % kLanes == 0)
                shared.emplace_back(new FilterInLanes(this->systems, k, sequences.length(order[0]), call.caller));
            filters.emplace_back(*shared.back(), static_cast<int>(k % kLanes));
        }
    }

    // log p(y_i | system k), (n, K).
    void score(double* scores) {
        States states(systems[0].n);
        each_bundle([&](const Bundle& bundle, bool gaps) {
            for (long k = 0; k < K(); ++k) put(bundle, filter(k, bundle, gaps, states), scores + k, K());
        });
    }

    // The same, z_ik ∝ ω_k p(y_i | k), (n, K), and the sums with these weights.
    void add_up(const double* log_weights, double* scores, double* z, const SystemSums& sums) {
        std::vector<std::unique_ptr<States>> states;
        std::vector<std::unique_ptr<LaneSums>> lanes;
        std::vector<ObservationSums> observed;
        std::vector<std::vector<double>> ends(K(), std::vector<double>(whole ? sequences.length(order[0]) : 0));
        for (const System& s : systems) {
            states.emplace_back(new States(s.n));
            lanes.emplace_back(new LaneSums(s, whole < sequences.n));
            observed.emplace_back(s);
        }
        each_bundle([&](const Bundle& bundle, bool gaps) {
            for (long k = 0; k < K(); ++k) put(bundle, filter(k, bundle, gaps, *states[k]), scores + k, K());
            assign(bundle, log_weights, scores, z);
            for (long k = 0; k < K(); ++k) {
                vec w = {};
                for (int l = 0; l < bundle.lanes; ++l) w[l] = z[bundle.sequence[l] * K() + k];
                if (!any(w > 0.0)) continue;
                if (gaps) add_own(k, bundle, w, *states[k], *lanes[k]);
                else add_shared(k, bundle, w, *states[k], *lanes[k], observed[k], ends[k]);
            }
        });
        for (long k = 0; k < K(); ++k) write(k, *lanes[k], observed[k], sums);
        for (size_t g = 0; g < shared.size(); ++g) add_covariances(*shared[g], g * kLanes, ends, sums, call.caller);
    }

    // The moments of the states of the first system, frame by frame.
    void smooth(double* means, double* covars, double* lags) {
        const System& s = systems[0];
        const long n = s.n, size = n * n;
        OwnFilter f(s);
        States states(n);
        each_bundle([&](const Bundle& bundle, bool) {
            f.run(bundle, nothing.data(), call.caller);
            run_filter<true>(s, observers[0], f, bundle, nothing.data(), states, call.caller);
            smooth_own(f, bundle, states, call.caller, [&](long t, const vec* x, const vec* covar, const vec* lag) {
                for (int l = 0; l < bundle.lanes; ++l) {
                    if (t >= bundle.length[l]) continue;
                    const long at = sequences.offsets[bundle.sequence[l]] + t;
                    scatter_row(l, x, n, means + at * n);
                    scatter_row(l, covar, size, covars + at * size);
                    scatter_row(l, lag, size, lags + at * size);
                }
            });
        });
    }

  private:
    const std::vector<System> systems;
    const std::vector<Observer> observers;
    const Sequences& sequences;
    Call& call;
    std::vector<long> order;  // longest first; those with gaps behind the others
    long whole;               // sequences without gaps
    const std::vector<double> nothing;
    std::vector<std::unique_ptr<FilterInLanes>> shared;
    std::vector<Filter> filters;

    long K() const { return static_cast<long>(systems.size()); }

    template <class Work>
    void each_bundle(Work work) {
        for (long at = 0; at < sequences.n;) {
            const bool gaps = at >= whole;
            const int lanes = static_cast<int>(std::min<long>(kLanes, (gaps ? sequences.n : whole) - at));
            work(Bundle(sequences, &order[at], lanes), gaps);
            at += lanes;
        }
    }

    vec filter(long k, const Bundle& bundle, bool gaps, States& states) {
        if (!gaps) return run_filter<false>(systems[k], observers[k], filters[k], bundle, nullptr, states, call.caller);
        OwnFilter f(systems[k]);
        f.run(bundle, nothing.data(), call.caller);
        return run_filter<true>(systems[k], observers[k], f, bundle, nothing.data(), states, call.caller);
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

    void add_shared(long k, const Bundle& bundle, vec w, States& states, LaneSums& lanes, ObservationSums& observed,
                    std::vector<double>& ends) {
        const long n = systems[k].n;
        VecArray own;
        own.resize(2 * n);
        vec* r = own.data();
        std::fill_n(r, n, vec{});
        for (long t = bundle.longest - 1; t >= 0; --t) {
            call.caller.checkpoint_at(t);
            smooth_mean(filters[k], t, bundle.active(t), states, r, r + n);
        }
        lanes.add_means(bundle, w, states);
        for (int l = 0; l < bundle.lanes; ++l) {
            const double* x = reinterpret_cast<const double*>(states.x(0)) + l;
            if (w[l] > 0) observed.add(systems[k], bundle.rows[l], bundle.length[l], x, 2 * n * kLanes, w[l]);
            ends[bundle.length[l] - 1] += w[l];
        }
    }

    void add_own(long k, const Bundle& bundle, vec w, States& states, LaneSums& lanes) {
        const System& s = systems[k];
        const long n = s.n;
        OwnFilter f(s);
        f.run(bundle, nothing.data(), call.caller);
        VecArray own;
        own.resize(n * n + s.d);
        vec *second = own.data(), *frame = second + n * n;
        smooth_own(f, bundle, states, call.caller, [&](long t, const vec* x, const vec* covar, const vec* lag) {
            lanes.add_covariances(t, bundle, w, covar, lag);
            for (long i = 0; i < n; ++i)
                for (long j = 0; j < n; ++j) second[i * n + j] = covar[i * n + j] + x[i] * x[j];
            bundle.load(t, frame, nothing.data());
            lanes.add_observations(s, bundle.active(t) ? w : vec{}, frame, x, second);
        });
        lanes.add_means(bundle, w, states);
    }

    void write(long k, LaneSums& lanes, const ObservationSums& observed, const SystemSums& sums) const {
        const long n = systems[k].n, d = systems[k].d, size = n * n;
        for (long i = 0; i < n; ++i) {
            sums.first[k * n + i] = sum(lanes.first()[i]), sums.x[k * n + i] = sum(lanes.x()[i]);
            for (long j = 0; j < n; ++j) {
                const long at = k * size + i * n + j, lower = std::max(i, j) * n + std::min(i, j);
                sums.first_second[at] = sum(lanes.first_second()[lower]);
                sums.xx_before[at] = sum(lanes.before()[lower]);
                sums.xx[at] = sums.xx_before[at] + sum(lanes.last()[lower]);
                sums.lag[at] = sum(lanes.lag()[i * n + j]);
            }
        }
        const bool gaps = whole < sequences.n;
        for (long j = 0; j < d; ++j) {
            sums.y[k * d + j] = observed.y[j] + (gaps ? sum(lanes.y()[j]) : 0.0);
            sums.yy[k * d + j] = observed.yy[j] + (gaps ? sum(lanes.yy()[j]) : 0.0);
            for (long i = 0; i < n; ++i)
                sums.yx[(k * d + j) * n + i] = observed.yx[i * observed.step + j] + (gaps ? sum(lanes.yx()[j * n + i]) : 0.0);
        }
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
