// Expectations between linear dynamical systems: the sums of the M-step, kLanes base systems at a time under one reduced
// system, and the calls from Python. Symbols are those of lds_bases.hpp, equations those of reference/lds_pairs.py.
#include <memory>
#include <numeric>

#include "lds_scores.hpp"

namespace {

// One pack of pairs.
class Pack {
    const System& r;
    const Filter& f;
    Bases& b;
    Worker& worker;
    const long n, p, m, tau;
    VecArray& seconds;  // (tau, m, m) E[s_t s_tᵀ]
    Registers room;
    vec *WH, *noise;               // (n, m), (n, n): of the pair
    vec *K, *F, *UWH, *shock, *G;  // of a frame: (n, m) filtered, A K, U WH; (n, n) twice
    vec *wide_a, *wide_b, *square_a, *square_b, *tall;
    long prepared = -1;

  public:
    vec *before, *last, *lag, *wx, *first_second, *xs, *ss;  // sums over t: (n, n) five times, (n, m), (m, m)
    vec *Phi, *Psi, *M, *smoothed;

    Pack(const System& r, const Filter& f, Bases& b, long tau, Worker& worker)
        : r(r), f(f), b(b), worker(worker), n(r.n), p(b.p), m(p + n), tau(tau),
          seconds(b.for_pairs), room(10 * n * m + 11 * n * n + 2 * m * m) {
        for (vec** at : {&WH, &K, &F, &UWH, &wide_a, &wide_b, &xs, &Phi, &M, &smoothed}) *at = room.take(n * m);
        for (vec** at : {&noise, &shock, &G, &square_a, &square_b, &before, &last, &lag, &wx, &first_second, &Psi})
            *at = room.take(n * n);
        for (vec** at : {&ss, &tall}) *at = room.take(m * m);
        b.seen_by(r, WH, m, noise);
        for (long i = 0; i < n; ++i)
            for (long j = 0; j < n; ++j) WH[i * m + p + j] = splat(-r.D[i * n + j]);
    }

    // E[s_t s_tᵀ] of every frame.
    void forward() {
        seconds.resize(tau * m * m);
        begin(second(0));
        for (long t = 0; t + 1 < tau; ++t) {
            worker.checkpoint_at(t);
            prepare(t);
            step(t, second(t), second(t + 1));
        }
    }

    // From the last frame to the first. Φ and Ψ converge: once a step changes them by rounding alone, all frames whose
    // filter is steady too are done at once.
    void backward() {
        for (vec* at : {before, last, lag, wx, first_second, Psi}) std::fill_n(at, n * n, vec{});
        for (vec* at : {xs, Phi, M, smoothed}) std::fill_n(at, n * m, vec{});
        std::fill_n(ss, m * m, vec{});
        const long steady = f.kept() - 1;
        VecArray stretch;
        stretch.resize(2 * m * m);
        for (long t = tau - 1; t >= 0; --t) {
            worker.checkpoint_at(t);
            prepare(t);
            if (t + 1 < tau) add_lag(t, second(t), 1);
            const bool moved = move_back(t, second(t));
            add_states(t, second(t), 1, t + 1 < tau ? before : last);
            if (moved || t - steady < 2) continue;
            vec *now = stretch.data(), *after = now + m * m;
            std::fill_n(now, m * m, vec{});
            for (long u = steady; u < t; ++u)
                for (long i = 0; i < m * m; ++i) now[i] += second(u)[i];
            for (long i = 0; i < m * m; ++i) after[i] = now[i] - second(steady)[i] + second(t)[i];
            product(smoothed, m, view(M, m), view(after, m), n, m, m);
            add_lag(steady, now, static_cast<double>(t - steady));
            add_states(steady, now, static_cast<double>(t - steady), before);
            product(smoothed, m, view(M, m), view(second(steady), m), n, m, m);
            t = steady;
        }
        add_states(0, second(0), 0, nullptr);
    }

    // Adds what concerns observations, weighted: y - ȳ_r = C z + w.
    void observations(vec w, double* y, double* yx, double* yy) {
        vec *Cs = room_for_observations(), *Cx = Cs + r.d * p;
        const vec* C = b.C.data();
        product(Cs, p, view(C, p), View<vec>{ss, m, 1}, r.d, p, p);
        product(Cx, n, view(r.C, n), view(wx, n), r.d, n, n);
        for (long j = 0; j < r.d; ++j) {
            const vec ratio = b.R.data()[j] / r.R[j];
            for (long i = 0; i < n; ++i) Cx[j * n + i] *= ratio;
            vec square = static_cast<double>(tau) * b.R.data()[j];
            for (long i = 0; i < p; ++i) square = fma(Cs[j * p + i], C[j * p + i], square);
            y[j] += sum(w * Cs[j * p + p - 1]), yy[j] += sum(w * square);
        }
        product(Cx, n, view(C, p), transposed(xs, m), r.d, p, n, Put::kAdd);
        for (long i = 0; i < r.d * n; ++i) yx[i] += sum(w * Cx[i]);
    }

  private:
    VecArray observed_;

    vec* room_for_observations() {
        observed_.resize(r.d * (p + n));
        return observed_.data();
    }

    vec* second(long t) { return seconds.data() + t * m * m; }

    // E[s_1 s_1ᵀ]
    void begin(vec* S) {
        const vec* z = b.seconds.data();
        for (long i = 0; i < m; ++i)
            for (long j = 0; j < m; ++j) {
                const vec left = i < p ? z[i * p + p - 1] : splat(r.mean[i - p]);
                const vec right = j < p ? z[j * p + p - 1] : splat(r.mean[j - p]);
                S[i * m + j] = i < p && j < p ? z[i * p + j] : left * right;
            }
    }

    // What a step uses that depends on the frame, through the reduced system's filter alone.
    void prepare(long t) {
        t = std::min(t, f.kept() - 1);
        if (t == prepared) return;
        prepared = t;
        const double *Vf = f.part(t, kVf), *gain = f.part(t, kGain);
        product(K, m, view(Vf, n), view(WH, m), n, n, m);
        for (long i = 0; i < n; ++i) K[i * m + p + i] += 1.0;
        product(F, m, view(r.A, n), view(K, m), n, n, m);
        product(UWH, m, view(f.part(t, kU), n), view(WH, m), n, n, m);
        product(square_a, view(gain, n), view(noise, n), n);
        product(shock, view(square_a, n), transposed(gain, n), n);
        product(G, view(square_a, n), view(Vf, n), n);
    }

    // S ← F S Fᵀ + noise, with F = [[A_b, 0], [F]]; the base systems' own part is there already.
    void step(long t, const vec* S, vec* next) {
        const vec *A = b.A.data(), *z = b.seconds.data() + (t + 1) * p * p;
        product(wide_a, m, view(F, m), view(S, m), n, m, m);
        vec *beside = next + p * m, *own = beside + p;
        product(beside, m, view(wide_a, m), transposed(A, p), n, p, p);
        lower_product(own, m, view(wide_a, m), transposed(F, m), n, m);
        for (long i = 0; i < p; ++i) std::copy_n(z + i * p, p, next + i * m);
        for (long i = 0; i < n; ++i) {
            for (long j = 0; j < p; ++j) next[j * m + p + i] = beside[i * m + j];
            for (long j = 0; j <= i; ++j) own[j * m + i] = own[i * m + j] += shock[i * n + j];
        }
    }

    // Adds E[x̂_{t+1} x̂_tᵀ], by x̂_{t|τ} = x̂^f_t + gainᵀ r_t and x̂^f_t = K s_t + G_t w_t; Φ, Ψ, M and `smoothed` are
    // those of the frame after.
    void add_lag(long t, const vec* S, double count) {
        const double *gain = f.part(t, kGain), *V_next = f.part(t + 1, kV);
        product(tall, n, view(S, m), transposed(K, m), m, m, n);
        times_F(M, wide_a);
        product(lag, n, view(wide_a, m), view(tall, n), n, m, n, Put::kAdd);
        product(square_a, n, View<vec>{M + p, m, 1}, view(G, n), n, n, n);
        for (long i = 0; i < n * n; ++i) lag[i] += count * square_a[i];
        product(square_a, n, view(V_next, n), view(Psi, n), n, n, n);
        for (long i = 0; i < n * n; ++i) square_a[i] *= count;
        product(square_a, n, view(smoothed, m), transposed(Phi, m), n, m, n, Put::kAdd);
        product(lag, n, view(square_a, n), view(gain, n), n, n, n, Put::kAdd);
    }

    // out = a [[A_b, 0], [F]]
    void times_F(const vec* a, vec* out) {
        product(out, m, View<vec>{a + p, m, 1}, view(F, m), n, n, m);
        product(out, m, view(a, m), view(b.A.data(), p), n, p, p, Put::kAdd);
    }

    // Φ, Ψ and M of frame t from those of the frame after, and `smoothed` = E[x̂_t s_tᵀ]. Whether they changed.
    bool move_back(long t, const vec* S) {
        const double *L = f.part(t, kL), *U = f.part(t, kU), *gain = f.part(t, kGain), *V = f.part(t, kV);
        product(wide_a, m, transposed(L, n), view(Phi, m), n, n, m);
        vec* beta = square_b;
        for (long i = 0; i < n * n; ++i) beta[i] = splat(U[i]);
        product(beta, n, View<vec>{wide_a + p, m, 1}, view(gain, n), n, n, n, Put::kAdd);
        vec *scratch = tall, *Psi_new = square_a;
        product(scratch, view(beta, n), view(noise, n), n);
        product(Psi_new, view(scratch, n), transposed(beta, n), n);
        product(scratch, p, view(wide_a, m), view(b.Q.data(), p), n, p, p);
        product(Psi_new, n, view(scratch, p), transposed(wide_a, m), n, p, n, Put::kAdd);
        product(scratch, transposed(L, n), view(Psi, n), n);
        product(Psi_new, view(scratch, n), view(L, n), n, Put::kAdd);
        bool moved = !is_steady(Psi, Psi_new, n);
        std::copy_n(Psi_new, n * n, Psi);
        times_F(wide_a, wide_b);
        for (long i = 0; i < n * m; ++i) wide_b[i] += UWH[i];
        moved = moved || !is_steady_map(Phi, wide_b, S, n, m);
        std::copy_n(wide_b, n * m, Phi);
        product(M, m, view(V, n), view(Phi, m), n, n, m);
        for (long i = 0; i < n; ++i) M[i * m + p + i] += 1.0;
        product(smoothed, m, view(M, m), view(S, m), n, m, m);
        return moved;
    }

    // Adds `count` frames like t whose E[s sᵀ] add up to S: to the sums over t, and to E[x xᵀ] in `to`. Without a frame,
    // leaves that of frame t in first_second.
    void add_states(long t, const vec* S, double count, vec* to) {
        const double* V = f.part(t, kV);
        const vec* from = smoothed;
        if (count > 1) product(wide_a, m, view(M, m), view(S, m), n, m, m), from = wide_a;
        vec* covariance = tall;
        product(covariance, view(V, n), view(Psi, n), n);
        product(square_a, view(covariance, n), view(V, n), n);
        vec* sum_to = count ? to : first_second;
        for (long i = 0; i < n * n; ++i) sum_to[i] += (count ? count : 1.0) * square_a[i];
        product(sum_to, n, view(from, m), transposed(M, m), n, m, n, Put::kAdd);
        if (!count) return;
        for (long i = 0; i < n * m; ++i) xs[i] += from[i];
        for (long i = 0; i < m * m; ++i) ss[i] += S[i];
        product(square_a, transposed(square_b, n), view(V, n), n);  // βᵀ V
        for (long i = 0; i < n * n; ++i) wx[i] += count * square_a[i];
    }
};

// The filters of all reduced systems.
struct Reduced {
    const std::vector<System> systems;
    std::vector<std::unique_ptr<FilterInLanes>> shared;
    std::vector<Filter> filters;

    Reduced(const Systems& s, long tau, Call& call) : systems(all_systems(s)) {
        for (long k = 0; k < s.K; ++k) {
            if (k % kLanes == 0) shared.emplace_back(new FilterInLanes(systems, k, tau, call.caller));
            filters.emplace_back(*shared.back(), static_cast<int>(k % kLanes));
        }
    }
};

// Calls work(bases, chosen, n) for kLanes of the members at a time; lanes without one repeat the first.
template <class Work>
void each_pack(const Systems& base, const std::vector<long>& members, long tau, Work work) {
    Bases lanes(base, tau);
    for (size_t at = 0; at < members.size(); at += kLanes) {
        const int n = static_cast<int>(std::min<size_t>(kLanes, members.size() - at));
        long chosen[kLanes];
        for (int l = 0; l < kLanes; ++l) chosen[l] = members[at + (l < n ? l : 0)];
        lanes.load(base, chosen);
        work(lanes, chosen, n);
    }
}

void check_pair(const Systems& base, const Systems& reduced, long tau) {
    if (base.d != reduced.d) refuse("C of both must have as many dimensions.");
    if (tau < 1) refuse("tau must be at least 1, got " + std::to_string(tau) + ".");
}

void score_systems(const Systems& base, const Systems& reduced, long tau, Output scores, const Run& run) {
    check_pair(base, reduced, tau);
    double* to = doubles_out(scores, "scores", {base.K, reduced.K});
    run_call(run, [&](Call& call) {
        Reduced all(reduced, tau, call);
        std::vector<long> members(base.K);
        std::iota(members.begin(), members.end(), 0);
        std::vector<Hindsight> hindsights;
        for (std::unique_ptr<FilterInLanes>& filter : all.shared) {
            HindsightInLanes lanes(*filter, tau, call.caller);
            for (int l = 0; l < kLanes && static_cast<long>(hindsights.size()) < reduced.K; ++l) hindsights.emplace_back(lanes, l);
        }
        each_pack(base, members, tau, [&](Bases& lanes, const long* chosen, int n) {
            for (long j = 0; j < reduced.K; ++j) {
                lanes.compare_with(base, all.systems[j], chosen);
                const vec score = PackScore(all.systems[j], all.filters[j], hindsights[j], lanes).score(call.caller);
                for (int l = 0; l < n; ++l) to[chosen[l] * reduced.K + j] = score[l];
            }
        });
    });
}

void reduce_systems(const Systems& base, const Systems& reduced, Input weights, long tau, SystemSums sums, const Run& run) {
    check_pair(base, reduced, tau), sums.check(reduced);
    const double* w = doubles(weights, "weights", {base.K, reduced.K});
    const long n = reduced.n, d = reduced.d, size = n * n, p = base.n + 1, m = p + n;
    run_call(run, [&](Call& call) {
        Reduced all(reduced, tau, call);
        std::vector<std::vector<double>> ends(reduced.K, std::vector<double>(tau));
        for (long j = 0; j < reduced.K; ++j) {
            std::vector<long> members;
            double total = 0;
            for (long i = 0; i < base.K; ++i) total += w[i * reduced.K + j];
            for (long i = 0; i < base.K; ++i)
                if (w[i * reduced.K + j] > kNegligibleShare * total / base.K) members.push_back(i);
            each_pack(base, members, tau, [&](Bases& lanes, const long* chosen, int count) {
                lanes.compare_with(base, all.systems[j], chosen);
                Pack pack(all.systems[j], all.filters[j], lanes, tau, call.caller);
                vec share = {};
                for (int l = 0; l < count; ++l) share[l] = w[chosen[l] * reduced.K + j], ends[j][tau - 1] += share[l];
                pack.forward();
                pack.backward();
                auto add = [&](double* to, const vec* from, long step = 1) {
                    for (long i = 0; i < (step == 1 ? size : n); ++i) to[i] += sum(share * from[i * step]);
                };
                add(sums.first_second + j * size, pack.first_second), add(sums.lag + j * size, pack.lag);
                add(sums.xx_before + j * size, pack.before), add(sums.xx + j * size, pack.before);
                add(sums.xx + j * size, pack.last);
                add(sums.first + j * n, pack.smoothed + p - 1, m), add(sums.x + j * n, pack.xs + p - 1, m);
                pack.observations(share, sums.y + j * d, sums.yx + j * d * n, sums.yy + j * d);
            });
        }
        for (size_t g = 0; g < all.shared.size(); ++g) add_covariances(*all.shared[g], g * kLanes, ends, sums, call.caller);
    });
}

}  // namespace

void bind_lds_pairs(nb::module_& m) {
    using namespace nb::literals;
    m.def("score_systems", &score_systems, nb::kw_only(), "base"_a, "reduced"_a, "tau"_a, "scores"_a, "run"_a);
    m.def("reduce_systems", &reduce_systems, nb::kw_only(), "base"_a, "reduced"_a, "weights"_a, "tau"_a, "sums"_a, "run"_a);
}
