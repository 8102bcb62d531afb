// Emissions of any family but plain Gaussians, as the kernels take them: Python writes a component's log-density as a sum of
// up to four parts, each over columns of its own, and no kernel knows what the family is called.
//
//   diagonal and full Gaussians;
//   linear:  ⟨η, T(y)⟩, where the frame holds the statistics T (zeros where a value is missing) and the component the
//            coefficients η. Every exponential family is one; log h(y) is a statistic with the coefficient 1;
//   tables:  one number per component and code, where the frame holds the code; a code of its own stands for missing. If
//            there is only one table, it may have probabilities instead of logs.
//
// In VHEM the statistics are those expected under the base component, and tables are not needed.
#pragma once

#include "gaussian.hpp"

namespace {

// Where each part's sums lie among those of one HMM with G components, as multiples of G.
struct PartOffsets {
    long diagonal_second, full_first, full_second, linear, tables, width;

    PartOffsets(long diagonal, long full, long linear_size, long table_size)
        : diagonal_second(diagonal), full_first(2 * diagonal), full_second(full_first + full),
          linear(full_second + full * full), tables(linear + linear_size), width(tables + table_size) {}
};

struct PartRows {
    GaussianRows<false> diagonal;
    GaussianRows<true> full;
    const double *coefficients, *statistics, *tables;
    long M, D, W;             // components of a state, coefficients of a component, entries of all its tables
    std::vector<long> start;  // where each table begins
    bool chances;             // whether the only table has probabilities
    long d;                   // columns of a frame: of the Gaussians, statistics, codes

    explicit PartRows(const PartMixtures& e)
        : diagonal{e.weights, e.means, e.variances, e.diagonal}, full{nullptr, e.full_means, e.full_covars, e.full},
          coefficients(e.coefficients), statistics(e.statistics), tables(e.tables), M(e.M), D(e.linear), W(e.table_size), chances(e.chances), d(e.d()) {
        long at = 0;
        for (long c = 0; c < e.n_tables; ++c) start.push_back(at), at += e.sizes[c];
    }
    long first_statistic() const { return diagonal.d + full.d; }
    long first_code() const { return first_statistic() + D; }
    PartOffsets offsets() const { return {diagonal.d, full.d, D, W}; }

    // What entries of a table say, as logs.
    vec logs(vec entries) const {
        if (!chances) return entries;
        return entries > kLeastChance ? vlog(vmax(entries, splat(kLeastChance))) : splat(kLeastLog);
    }
};

// What sums are taken about: the Gaussians' means.
struct PartAnchors {
    const double *diagonal, *full;
};

// VHEM: the reduced models' components, kLanes columns (j,ρ) per panel.
class PartPanels {
    GaussianPanels<false> diagonal_;
    GaussianPanels<true> full_;
    long D_, panels_;
    std::vector<double> coefficients_;  // [ℓ][panel][D][kLanes]

   public:
    const long M, columns;

    PartPanels(const std::vector<long>& states, long n_mix, const PartRows& all)
        : diagonal_(states, n_mix, all.diagonal), full_(states, n_mix, all.full), D_(all.D),
          panels_(diagonal_.columns / kLanes), coefficients_(static_cast<size_t>(n_mix * panels_ * D_ * kLanes)), M(n_mix),
          columns(diagonal_.columns) {
        for (long l = 0; l < M; ++l)
            for (size_t c = 0; c < states.size(); ++c) {
                const long panel = l * panels_ + static_cast<long>(c) / kLanes, lane = static_cast<long>(c) % kLanes;
                const double* from = all.coefficients + (states[c] * M + l) * D_;
                for (long j = 0; j < D_; ++j) coefficients_[(panel * D_ + j) * kLanes + lane] = from[j];
            }
    }

    long scratch_size() const { return full_.scratch_size(); }

    // log c_ρℓ + g(row; ρ,ℓ) for n ≤ 4 base components and one panel.
    void evaluate(const PartRows& base, long row, int n, long l, long panel, vec* out, vec* scratch) const {
        diagonal_.evaluate(base.diagonal, row, n, l, panel, out, scratch);
        if (base.full.d) {
            vec more[4];
            full_.evaluate(base.full, row, n, l, panel, more, scratch);
            for (int r = 0; r < n; ++r) out[r] += more[r];
        }
        const double* p = coefficients_.data() + (l * panels_ + panel) * D_ * kLanes;
        if (n == 4) return add_products<4>(base.statistics + row * D_, p, out);
        for (int r = 0; r < n; ++r) add_products<1>(base.statistics + (row + r) * D_, p, out + r);
    }

   private:
    template <int N>
    void add_products(const double* statistics, const double* p, vec* out) const {
        vec sum[N];
        for (int r = 0; r < N; ++r) sum[r] = out[r];
        for (long j = 0; j < D_; ++j) {
            const vec coefficient = load(p + j * kLanes);
            for (int r = 0; r < N; ++r) sum[r] = fma(coefficient, splat(statistics[r * D_ + j]), sum[r]);
        }
        for (int r = 0; r < N; ++r) out[r] = sum[r];
    }
};

// Adds Σ u T̄ over rows to the statistics of N components, kLanes of them from j on: the sums stay in registers.
template <int N>
void add_statistics(const std::vector<WeightedRow>& rows, const PartRows& base, long g, long j, double* to) {
    const long D = base.D;
    const int width = static_cast<int>(std::min<long>(kLanes, D - j));
    vec total[N];
    for (int e = 0; e < N; ++e) total[e] = load_partial(to + (g + e) * D + j, width);
    for (const auto& row : rows) {
        const vec expected = load_partial(base.statistics + row.row * D + j, width);
        for (int e = 0; e < N; ++e) total[e] = fma(splat(row.weights[g + e]), expected, total[e]);
    }
    for (int e = 0; e < N; ++e) store_partial(to + (g + e) * D + j, total[e], width);
}

// The same of n components and all statistics.
inline void add_statistics(const std::vector<WeightedRow>& rows, const PartRows& base, long n, double* to) {
    for (long j = 0; j < base.D; j += kLanes) {
        long g = 0;
        for (; g + 4 <= n; g += 4) add_statistics<4>(rows, base, g, j, to);
        switch (n - g) {
            case 3: add_statistics<3>(rows, base, g, j, to); break;
            case 2: add_statistics<2>(rows, base, g, j, to); break;
            case 1: add_statistics<1>(rows, base, g, j, to); break;
        }
    }
}

// One component, for one sequence at a time.
struct PartComponent {
    Gaussian<false> diagonal;  // carries log c
    Gaussian<true> full;
    const double *coefficients, *table;
    long index;

    PartComponent(const PartRows& all, long c)
        : diagonal(all.diagonal, c), full(all.full, c), coefficients(all.coefficients + c * all.D),
          table(all.tables + c * all.W), index(c) {}
};

inline int64_t code_of(double x) {
    int64_t code;
    std::memcpy(&code, &x, sizeof code);
    return code;
}

// log c + log f(y_t) of the frames of a block.
class PartDensities {
    const PartRows all;
    GaussianDensities<false> diagonal;
    GaussianDensities<true> full;
    std::vector<double> room;

   public:
    explicit PartDensities(const PartRows& all)
        : all(all), diagonal(all.diagonal), full(all.full, all.diagonal.d), room(kBlockFrames) {}

    void evaluate(const PartComponent& c, const FrameBlock& frames, double* out, Worker& worker) {
        diagonal.evaluate(c.diagonal, frames, out, worker);
        if (all.full.d) full.evaluate(c.full, frames, room.data(), worker);
        const double* statistics = frames.column(all.first_statistic());
        for (int t = 0; t < frames.n; t += kLanes) {
            vec log = load(out + t);
            if (all.full.d) log += load(&room[t]);
            for (long j = 0; j < all.D; ++j) log = fma(load(statistics + j * kBlockFrames + t), splat(c.coefficients[j]), log);
            for (size_t i = 0; i < all.start.size(); ++i) {
                const double *codes = frames.column(all.first_code() + static_cast<long>(i)) + t, *table = c.table + all.start[i];
                vec entries;
                for (int l = 0; l < kLanes; ++l) entries[l] = table[code_of(codes[l])];
                log += all.logs(entries);
            }
            store(out + t, vmax(log, splat(kLeastLog)));
        }
    }
};

// Adds the frames of a block, with weights u, to the sums of one component.
class PartAccumulation {
    const PartRows all;
    const PartOffsets at;
    GaussianAccumulation<false> diagonal;
    GaussianAccumulation<true> full;

   public:
    explicit PartAccumulation(const PartRows& all)
        : all(all), at(all.offsets()), diagonal(all.diagonal), full(all.full, all.diagonal.d) {}

    // The full Gaussian last: it takes away the weights of frames with gaps.
    void add(const PartComponent& c, FrameBlock& frames, double* u, const PartAnchors& anchors, long g, long G, double& count,
             const std::array<double*, 1>& sums, Worker& worker) const {
        double *to = sums[0], unused = 0;
        const std::array<double*, 2> first{to, to + G * at.diagonal_second}, second{to + G * at.full_first, to + G * at.full_second};
        vec occupancy = {};
        for (int t = 0; t < frames.n; t += kLanes) occupancy += load(u + t);
        count += sum(occupancy);
        add_statistics(frames, u, to + G * at.linear + g * all.D);
        count_codes(frames, u, to + G * at.tables + g * all.W);
        if (all.diagonal.d) diagonal.add(c.diagonal, frames, u, anchors.diagonal, g, G, unused, first, worker);
        if (all.full.d) full.add(c.full, frames, u, anchors.full, g, G, unused, second, worker);
    }

   private:
    void add_statistics(const FrameBlock& frames, const double* u, double* to) const {
        for (long j = 0; j < all.D; ++j) {
            const double* column = frames.column(all.first_statistic() + j);
            vec total = {};
            for (int t = 0; t < frames.n; t += kLanes) total = fma(load(u + t), load(column + t), total);
            to[j] += sum(total);
        }
    }

    void count_codes(const FrameBlock& frames, const double* u, double* to) const {
        for (size_t i = 0; i < all.start.size(); ++i) {
            const double* codes = frames.column(all.first_code() + static_cast<long>(i));
            for (int t = 0; t < frames.n; ++t) to[all.start[i] + code_of(codes[t])] += u[t];
        }
    }
};

// Made once per call.
struct PartPrepared {
    GaussianTriangles<false> none;
    GaussianTriangles<true> triangles;

    template <class Family>
    PartPrepared(const Models<Family>& m, Call& call)
        : none(m.components.diagonal, m.K, m.S * m.M, call), triangles(m.components.full, m.K, m.S * m.M, call) {}
};

// A table of kLanes HMMs, [state][entry][lane]. Loops over frames hold it by value: members of a larger object would be
// read again, and offsets multiplied, for every frame.
struct TableLanes {
    double* entries;
    long width, code;  // numbers from one state to the next, and where in a frame the code stands

    // The entries of a frame's code in n states. Returns their largest.
    __attribute__((always_inline)) vec read(const vec* frame, int n, vec* to) const {
        const double* from[kLanes];
        for (int l = 0; l < kLanes; ++l) from[l] = entry(frame, l);
        vec top = {};
        for (int s = 0; s < n; ++s) top = vmax(top, to[s] = pick(from, s * width));
        return top;
    }

    // Adds u of n states to the entries of a frame's code.
    __attribute__((always_inline)) void add(const vec* frame, int n, const vec* u) const {
        for (int l = 0; l < kLanes; ++l) {
            double* to = entry(frame, l);
            for (int s = 0; s < n; ++s) to[s * width] += reinterpret_cast<const double*>(u)[s * kLanes + l];
        }
    }

  private:
    __attribute__((always_inline)) double* entry(const vec* frame, int l) const {
        return entries + code_of(reinterpret_cast<const double*>(frame + code)[l]) * kLanes + l;
    }
};

// Tables of categories and rates that are learned: what comes out, and the prior as sums of pseudo-frames.
struct PartLearning : Learning {
    double *probabilities, *coefficients;   // (K, S, 1, W), of which the tables are the logs, and (K, S, 1, D)
    const double *tables, *linear, *low;    // (K, W), (K, D) pseudo-sums, and (K, D) the smallest rates
    const int64_t* is_rate;                 // (D,): whether this and the next are a rate's: -λ and log λ
};

// The components of kLanes HMMs in Baum-Welch, one HMM per lane.
class PartLanes {
    const PartRows all;
    const PartOffsets at;
    const long G;
    GaussianLanes<false> diagonal;
    GaussianLanes<true> full;
    vec* coefficients;
    ivec table;     // where the tables of each lane's HMM begin
    int shift;      // and the distance of their entries, as a power of two
    bool by_chance; // whether there is one table, whose probabilities are in the lanes: densities are then times these
    vec *own_chances, *chances, *logs, *fresh_chances, *fresh, *table_prior, *linear_prior, *low;  // the rest of learning
    bool flat;      // whether the prior says nothing

  public:
    PartLanes(const PartRows& all, const PartPrepared& prepared, const PartAnchors& anchors, long G)
        : all(all), at(all.offsets()), G(G), diagonal(all.diagonal, prepared.none, anchors.diagonal, G),
          full(all.full, prepared.triangles, anchors.full, G) {}

    long size() const { return diagonal.size() + full.size() + G * all.D + (has_small_table() ? G * all.W : 0); }
    void place(vec* room) {
        diagonal.place(room), full.place(room + diagonal.size());
        coefficients = room + diagonal.size() + full.size();
        own_chances = coefficients + G * all.D;
    }

    void load(ivec k) {
        diagonal.load(k), full.load(k);
        gather_rows(k, all.coefficients, G * all.D, coefficients);
        table = reinterpret_cast<int64_t>(all.tables) + k * static_cast<int64_t>(G * all.W * sizeof(double));
        shift = 3;
        by_chance = has_small_table();
        if (!by_chance) return;
        chances = own_chances;
        gather_rows(k, all.tables, G * all.W, chances);
        for (long i = 0; !all.chances && i < G * all.W; ++i) chances[i] = chances[i] > kLeastGap ? vexp(chances[i]) : vec{};
    }

    ivec trusted(ivec complete) const { return all.full.d ? complete : ~ivec{}; }

    vec log_factor(long g) { return diagonal.log_factor(g) + (all.full.d ? full.log_factor(g) : vec{}); }

    // But for the probabilities of the `chances_table`.
    template <bool Missing>
    __attribute__((always_inline)) vec density(int g, const vec* frame, vec log) {
        if (all.diagonal.d) log = diagonal.template density<Missing>(g, frame, log);
        if (all.full.d) log = full.template density<Missing>(g, frame + all.diagonal.d, log);
        const vec *statistics = frame + all.first_statistic(), *codes = frame + all.first_code(), *eta = coefficients + g * all.D;
        for (long j = 0; j < all.D; ++j) log = fma(statistics[j], eta[j], log);
        for (size_t i = 0; !by_chance && i < all.start.size(); ++i)
            log += all.logs(gather(table + ((g * all.W + all.start[i] + (ivec)codes[i]) << shift)));
        return vmax(log, splat(kLeastLog));
    }

    // Whether densities are times the entries of the `chances_table`, and whether that is all there is.
    bool has_chances() const { return by_chance; }
    bool is_direct() const { return by_chance && all.d == 1; }

    // Of no use unless it `has_chances`.
    TableLanes chances_table() const {
        return {reinterpret_cast<double*>(by_chance ? chances : nullptr), all.W * kLanes, all.first_code()};
    }

    // Where the codes of table i are counted, of the components from g on.
    TableLanes counts_table(size_t i, long g, const std::array<vec*, 1>& sums) const {
        const long first = i ? all.start[i] : 0;  // there may be no table at all
        double* counts = reinterpret_cast<double*>(sums[0] + G * at.tables + g * all.W + first);
        return {counts, all.W * kLanes, all.first_code() + static_cast<long>(i)};
    }

    template <bool Missing>
    void add(int g, vec u, const vec* frame, const std::array<vec*, 1>& sums) {
        vec* to = sums[0];
        if (all.diagonal.d) diagonal.template add<Missing>(g, u, frame, {to, to + G * at.diagonal_second});
        if (all.full.d) full.template add<Missing>(g, u, frame + all.diagonal.d, {to + G * at.full_first, to + G * at.full_second});
        const vec* statistics = frame + all.first_statistic();
        vec* first = to + G * at.linear + g * all.D;
        for (long j = 0; j < all.D; ++j) first[j] = fma(u, statistics[j], first[j]);
        for (size_t i = 0; i < all.start.size(); ++i) counts_table(i, g, sums).add(frame, 1, &u);
    }

    // All T frames without gaps to the sums of S states, with weights [frame][state]; not for full covariances.
    bool adds_frames() const { return all.full.d == 0; }
    template <int S>
    void add_frames(long T, const vec* x, long, const vec* weights, const std::array<vec*, 1>& sums) const {
        vec *to = sums[0], *first = to + G * at.linear;
        diagonal.template add_frames<S>(T, x, all.d, weights, {to, to + G * at.diagonal_second});
        for (long j = 0; j < all.D; ++j) {
            vec total[S] = {};
            const vec* column = x + all.first_statistic() + j;
            for (long t = 0; t < T; ++t)
                for (int s = 0; s < S; ++s) total[s] = fma(weights[t * S + s], column[t * all.d], total[s]);
            for (int s = 0; s < S; ++s) first[s * all.D + j] = total[s];
        }
        for (size_t i = 0; i < all.start.size(); ++i) {
            const TableLanes counts = counts_table(i, 0, sums);
            for (long t = 0; t < T; ++t) counts.add(x + t * all.d, S, weights + t * S);
        }
    }

    // Learning, one component per state, of tables and rates alone. The tables are then in the lanes.

    long learning_size() const { return G * (3 * all.W + all.D) + all.W + 2 * all.D; }
    void load_prior(ivec k, const PartLearning& l, vec* room) {
        auto take = [&](long n) { return std::exchange(room, room + n); };
        logs = take(G * all.W), chances = take(G * all.W), fresh_chances = take(G * all.W), fresh = take(G * all.D);
        table_prior = take(all.W), linear_prior = take(all.D), low = take(all.D);
        gather_rows(k, l.probabilities, G * all.W, chances);
        gather_rows(k, l.tables, all.W, table_prior);
        gather_rows(k, l.linear, all.D, linear_prior);
        gather_rows(k, l.low, all.D, low);
        for (int i = 0; i < kLanes; ++i) table[i] = reinterpret_cast<int64_t>(logs) + i * static_cast<int64_t>(sizeof(double));
        shift = 3 + __builtin_ctz(kLanes);
        by_chance = all.start.size() == 1;
        if (by_chance)
            for (long g = 0; g < G; ++g) chances[g * all.W + end(0)] = splat(1.0);  // what is missing is certain
        else
            gather_rows(k, all.tables, G * all.W, logs);
        flat = true;
        for (long i = 0; i < all.W; ++i) flat = flat && !any(table_prior[i] != 0.0);
        for (long j = 0; j < all.D; ++j) flat = flat && !any(linear_prior[j] != 0.0);
    }

    // Σ ⟨η, pseudo-sums⟩.
    vec log_prior(const PartLearning&) const {
        vec total = {};
        for (long g = 0; !flat && g < G; ++g) {
            for (long i = 0; i < all.W; ++i) {
                const vec log = by_chance ? log_of(chances[g * all.W + i]) : logs[g * all.W + i];
                total += table_prior[i] > 0.0 ? table_prior[i] * log : vec{};
            }
            for (long j = 0; j < all.D; ++j) total = fma(linear_prior[j], coefficients[g * all.D + j], total);
        }
        return total;
    }

    ivec estimate(long g, vec weight, vec, const std::array<vec*, 1>& sums, const PartLearning& l) {
        estimate_tables(g, weight, sums[0] + G * at.tables);
        const vec *total = sums[0] + G * at.linear + g * all.D, *old = coefficients + g * all.D;
        for (long j = 0; j < all.D; ++j) fresh[g * all.D + j] = old[j];
        for (long j = 0; j + 1 < all.D; ++j) {
            if (!l.is_rate[j]) continue;
            const vec n = fma(weight, total[j], linear_prior[j]), y = fma(weight, total[j + 1], linear_prior[j + 1]);
            const vec rate = vmax(n > 0.0 ? y / (n > 0.0 ? n : splat(1.0)) : -old[j], vmax(low[j], splat(__DBL_MIN__)));
            fresh[g * all.D + j] = -rate;
            fresh[g * all.D + j + 1] = vlog(rate);
        }
        return ~ivec{};
    }

    void apply(ivec going) {
        for (long i = 0; i < G * all.D; ++i) coefficients[i] = going ? fresh[i] : coefficients[i];
        for (long g = 0; g < G; ++g)
            for (size_t i = 0; i < all.start.size(); ++i)
                for (long e = g * all.W + all.start[i]; e < g * all.W + end(i); ++e) {
                    chances[e] = going ? fresh_chances[e] : chances[e];
                    if (!by_chance) logs[e] = log_of(chances[e]);
                }
    }

    void keep(int lane, long k, const PartLearning& l) const {
        scatter_row(lane, chances, G * all.W, l.probabilities + k * G * all.W);
        scatter_row(lane, coefficients, G * all.D, l.coefficients + k * G * all.D);
    }

  private:
    bool has_small_table() const { return all.start.size() == 1 && all.W <= kMostChances && all.M == 1; }

    static vec log_of(vec p) { return p > kLeastChance ? vlog(vmax(p, splat(kLeastChance))) : splat(kLeastLog); }

    // Behind a table's last category; its last entry, for what is missing, is none.
    long end(size_t i) const { return (i + 1 < all.start.size() ? all.start[i + 1] : all.W) - 1; }

    void estimate_tables(long g, vec weight, const vec* counts) {
        counts += g * all.W;
        vec *to = fresh_chances + g * all.W, *old = chances + g * all.W;
        for (size_t i = 0; i < all.start.size(); ++i) {
            vec all_counts = {};
            for (long e = all.start[i]; e < end(i); ++e) all_counts += to[e] = fma(weight, counts[e], table_prior[e]);
            const ivec known = all_counts > 0.0;
            const vec inverse = 1.0 / (known ? all_counts : splat(1.0));
            for (long e = all.start[i]; e < end(i); ++e) to[e] = known ? to[e] * inverse : old[e];
        }
    }
};

// Any family, as all kernels take it.
struct PartFamily {
    using Models = PartModels;
    using Components = PartRows;
    using Anchors = PartAnchors;
    using Panels = PartPanels;
    using Component = PartComponent;
    using Densities = PartDensities;
    using Accumulation = PartAccumulation;
    using Prepared = PartPrepared;
    using Lanes = PartLanes;
    using Learning = PartLearning;
    static constexpr bool kFullMoments = false;
    static constexpr int kMostStates = 3;
    static constexpr bool kMayHaveChances = true;
    static constexpr Gaps kGaps = Gaps::kAlike;
    static constexpr int kMoments = 1;

    static Components components(const PartModels& models) { return Components(models.emissions); }
    static std::array<long, kMoments> widths(const Components& c) { return {c.offsets().width}; }
    static Anchors anchors(const PartMixtures& given) { return {given.means, given.full_means}; }

    static void add_moments(const std::vector<WeightedRow>& rows, const Components& base, long n, const Anchors& anchors,
                            long first, const std::array<double*, kMoments>& sums) {
        const PartOffsets at = base.offsets();
        double* to = sums[0];
        GaussianMoments<false>::add(rows, base.diagonal, n, anchors.diagonal + first * base.diagonal.d, to, to + n * at.diagonal_second);
        GaussianMoments<true>::add(rows, base.full, n, anchors.full + first * base.full.d, to + n * at.full_first, to + n * at.full_second);
        add_statistics(rows, base, n, to + n * at.linear);
    }
};

template <class Use>
void with_family(const PartModels&, Use use) {
    use(PartFamily());
}

}  // namespace
