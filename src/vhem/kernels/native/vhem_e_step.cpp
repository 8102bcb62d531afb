// The E-step of VHEM (MATH section 1) over all pairs of base and reduced HMMs, and the sums that the M-step divides.
//
// Base models are taken in blocks. For a block: emissions against all reduced states; an upper bound of every J_ij; then
// rounds in which each base model offers its most promising reduced model not yet looked at, until none left can have a
// responsibility above exp(-kCutoff). Pairs are evaluated kLanes at a time, whatever models they join. Forward passes are
// made only for pairs that matter. Nothing is dropped that could be seen in the result: what was skipped is bounded per
// cluster, and a cluster so starved that the skipped part might show is gone through again in full. From the second iteration
// on, bounds carried from the one before (carried.hpp) rule most pairs out before their emissions are computed.
#include <chrono>
#include <memory>
#include <numeric>

#include "careful_pairs.hpp"
#include "carried.hpp"
#include "families/parts.hpp"
#include "models.hpp"
#include "observed_pairs.hpp"

namespace {

// The chains behind base states in pieces: state γ of them is cut into M components of n_nodes pieces each.
struct Whole {
    long S = 0, M = 0, n_nodes = 0;  // n_nodes = 0: base states are whole
    const double *startprob, *transmat, *mix_weights;
    const int64_t* n_states;
};

// Emissions of base states against those of some reduced states, which stand in columns.
struct Columns {
    const long n;

    explicit Columns(long n) : n(n) {}
    virtual ~Columns() = default;
    // E and η of base states [first, first + n_states), for the columns of some panels (emissions.hpp).
    virtual void emissions(const std::vector<long>& panels, long first, long n_states, double* E, double* eta, Worker& worker,
                           VecArray& scratch) const = 0;
};

// All that the E-step asks of the family that base and reduced models belong to.
struct Emitted {
    const std::vector<long> widths;  // numbers per component in each of the family's arrays of moments

    explicit Emitted(std::vector<long> widths) : widths(std::move(widths)) {}
    virtual std::unique_ptr<Columns> against(const std::vector<long>& states) const = 0;
    // Weighted base components to the moments of n reduced ones, of which the anchors have `first` before them.
    virtual void add_moments(const std::vector<WeightedRow>& rows, long n, long first, double* const* to) const = 0;

  protected:
    ~Emitted() = default;
};

template <class Family>
class EmittedBy final : public Emitted {
    const Models<Family> base_, reduced_;
    const typename Family::Anchors anchors_;  // moments are taken about these, (K_r,S_r,M_r,d)

    struct FamilyColumns final : Columns {
        const Models<Family>& base;
        const typename Family::Panels panels;

        FamilyColumns(const Models<Family>& base, typename Family::Panels made)
            : Columns(made.columns), base(base), panels(std::move(made)) {}
        void emissions(const std::vector<long>& wanted, long first, long n_states, double* E, double* eta, Worker& worker,
                       VecArray& scratch) const override {
            emission_step<Family>(panels, wanted, base.components, base.mix_weights, base.M, first, n_states, E, eta, worker, scratch);
        }
    };

    static std::vector<long> widths_of(const Models<Family>& models) {
        const auto widths = Family::widths(models.components);
        return {widths.begin(), widths.end()};
    }

  public:
    EmittedBy(const Models<Family>& base, const Models<Family>& reduced, const typename Family::Anchors& anchors)
        : Emitted(widths_of(reduced)), base_(base), reduced_(reduced), anchors_(anchors) {}

    std::unique_ptr<Columns> against(const std::vector<long>& states) const override {
        return std::make_unique<FamilyColumns>(base_, typename Family::Panels(states, reduced_.M, reduced_.components));
    }
    void add_moments(const std::vector<WeightedRow>& rows, long n, long first, double* const* to) const override {
        std::array<double*, Family::kMoments> moments;
        std::copy_n(to, moments.size(), moments.begin());
        Family::add_moments(rows, base_.components, n, anchors_, first, moments);
    }
};

// What one call is about; read by all threads.
struct Job {
    const Mixtures base, reduced;
    const Emitted& emitted;
    const Recursion recursion;
    const double* log_weights = nullptr;  // log ω_j
    struct {
        const double *occupancy, *counts, *scales;  // Σ_t p_t(β), N_i and a_i: logits are a_i log ω_j + N_i J_ij
    } weights = {};
    Whole whole = {};
    const Carried* carried = nullptr;
};

// Sums over base models for the clusters of one pass.
struct Totals {
    std::vector<double> mass, start, trans, count;
    std::vector<std::vector<double>> moments;
    std::vector<char> in_use;     // whether a cluster's sums are anything but zero
    std::vector<double> skipped;  // what pairs not carried forward could add to the mass, at most; where that could show
    std::vector<std::pair<double, long>> nearest;  // largest bound on a skipped log z_ij of each cluster, and its -i
    double bound = 0;
    long evaluated = 0, forwarded = 0;

    Totals(const Job& job, size_t n) {
        const auto& r = job.reduced;
        const size_t S = static_cast<size_t>(r.S), G = S * static_cast<size_t>(r.M);
        mass.resize(n), skipped.resize(n), nearest.resize(n, {kBelowAll, 0}), start.resize(n * S), trans.resize(n * S * S), count.resize(n * G);
        for (long width : job.emitted.widths) moments.emplace_back(n * G * static_cast<size_t>(width));
        in_use.resize(n);
    }
    // All arrays of sums, of so many numbers per cluster each.
    std::vector<std::vector<double>*> sums() {
        std::vector<std::vector<double>*> parts{&mass, &start, &trans, &count};
        for (auto& part : moments) parts.push_back(&part);
        return parts;
    }
    // Calls work(begin, end) for each cluster's numbers in such an array. With many clusters, a chunk has few of them in use.
    template <class Work>
    void for_clusters_in_use(const std::vector<double>& part, Work work) const {
        for (size_t c = 0; c < in_use.size(); ++c)
            if (in_use[c]) work(c * (part.size() / in_use.size()), (c + 1) * (part.size() / in_use.size()));
    }
    void clear() {
        for (auto* part : sums())
            for_clusters_in_use(*part, [&](size_t begin, size_t end) { std::fill(part->begin() + begin, part->begin() + end, 0.0); });
        std::fill(in_use.begin(), in_use.end(), 0), std::fill(skipped.begin(), skipped.end(), 0.0);
        std::fill(nearest.begin(), nearest.end(), std::pair<double, long>(kBelowAll, 0));
        bound = 0, evaluated = forwarded = 0;
    }
    void add(Totals& other) {
        const auto to = sums(), from = other.sums();
        for (size_t part = 0; part < to.size(); ++part)
            other.for_clusters_in_use(*from[part], [&](size_t begin, size_t end) {
                for (size_t e = begin; e < end; ++e) (*to[part])[e] += (*from[part])[e];
            });
        for (size_t c = 0; c < in_use.size(); ++c) {
            in_use[c] |= other.in_use[c], skipped[c] += other.skipped[c];
            nearest[c] = std::max(nearest[c], other.nearest[c]);
        }
        bound += other.bound, evaluated += other.evaluated, forwarded += other.forwarded;
    }
    // Counts a pair that is not carried forward: a bound on log z_ij, and a_i.
    void skip(long i, long c, double gap, double scale) {
        if (gap <= kLeastGap) return;
        skipped[c] += scale * std::exp(gap);
        nearest[c] = std::max(nearest[c], {gap, -i});
    }
    static long bytes(const Job& job, size_t n) {
        const auto& r = job.reduced;
        long per_component = 1;
        for (long width : job.emitted.widths) per_component += width;
        return 8 * static_cast<long>(n) * r.S * (1 + r.S + r.M * per_component);
    }
};

// A set of clusters to go through: all that have weight, or the starved ones once more.
struct Pass {
    const Job& job;
    const std::vector<long> clusters;  // their numbers in the reduced model
    const std::unique_ptr<Columns> columns;
    const bool prune;             // else every pair is evaluated and carried forward
    std::vector<double> log_weights;  // log ω_j of the clusters
    double* log_sum;              // log Σ_j exp(logit_ij) of every base model: found here, or known if `reach` is given
    std::vector<double> reach;    // log z_ij of each cluster's nearest base model, when starved ones are done again
    double* responsibilities;    // (K_b,K_r), or null
    double* J;                   // (K_b,K_r): then J alone is wanted, and nothing else is done
    bool diagonal = false;       // J_ii alone is wanted, into J (K_b,): base and reduced models are the same
    CarriedBounds* carried = nullptr;
    std::vector<long> all_panels, all_clusters;

    static std::vector<long> states(const Job& job, const std::vector<long>& clusters) {
        std::vector<long> out;
        for (long j : clusters)
            for (long s = 0; s < job.reduced.S; ++s) out.push_back(j * job.reduced.S + s);
        return out;
    }
    Pass(const Job& job, std::vector<long> wanted, bool prune, double* log_sum, double* z, double* J)
        : job(job),
          clusters(std::move(wanted)),
          columns(job.emitted.against(states(job, clusters))),
          prune(prune),
          log_sum(log_sum),
          responsibilities(z),
          J(J) {
        for (long panel = 0; panel < columns->n / kLanes; ++panel) all_panels.push_back(panel);
        for (size_t c = 0; c < clusters.size(); ++c) {
            all_clusters.push_back(static_cast<long>(c));
            log_weights.push_back(J ? 0 : job.log_weights[clusters[c]]);
        }
    }
    size_t size() const { return clusters.size(); }
    // The logit of base model i in cluster c, from its J.
    double logit(long i, long c, double J) const { return job.weights.scales[i] * log_weights[c] + job.weights.counts[i] * J; }
    // How many states base model i visits.
    double visits(long i) const {
        const double* occupancy = job.weights.occupancy + i * job.base.S;
        return std::accumulate(occupancy, occupancy + job.base.n_states[i], 0.0);
    }
    bool again() const { return !reach.empty(); }
    bool is_warm() const { return carried && !again() && carried->is_warm(); }
};

// A pair that was carried forward, its logit, and where its statistics lie.
struct Slot {
    long i, c;  // base model within the block, cluster within the pass
    double logit;
    size_t at;  // ν̂₁ (S_r), ξ̂ (S_r·S_r), ν̂ (S_b·S_r)
};

struct Pair {
    long i, c;
};

// One thread's work on one block of base models after another.
class Block {
    const Pass& pass_;
    const Job& job_;
    Worker& worker_;
    const long Sb_, Sr_, C_, n_clusters_;
    const bool mixtures_;
    long begin_ = 0, size_ = 0;
    std::vector<double> E_, eta_, upper_, best_, stats_, weights_, visits_;
    std::vector<long> panels_wanted_;
    std::vector<std::vector<long>> wanted_;
    std::vector<std::vector<std::pair<double, long>>> candidates_;
    std::vector<Slot> slots_, passed_over_;
    std::vector<WeightedRow> rows_;
    std::vector<size_t> order_, place_;  // slots by cluster, and where each cluster's end
    Pack pack_;
    CarefulPack careful_;
    ObservedPack observed_;
    Pair loaded_[kLanes];
    VecArray scratch_;

   public:
    Block(const Pass& pass, Worker& worker)
        : pass_(pass),
          job_(pass.job),
          worker_(worker),
          Sb_(job_.base.S),
          Sr_(job_.reduced.S),
          C_(pass.columns->n),
          n_clusters_(static_cast<long>(pass.size())),
          mixtures_(job_.base.M > 1 || job_.reduced.M > 1) {
        for (auto& pair : loaded_) pair.i = -1;
    }

    static long block_size(const Pass& pass) {
        const Job& job = pass.job;
        const long mixtures = job.base.M > 1 || job.reduced.M > 1 ? job.base.M * job.reduced.M : 0;
        long bytes = 8 * job.base.S * pass.columns->n * (1 + mixtures);
        if (!pass.prune) bytes += 8 * static_cast<long>(pass.size()) * job.reduced.S * (1 + job.reduced.S + job.base.S);
        const long room = pass.is_warm() ? kSparseBlockBytes : kBlockBytes;
        return std::min(kBlockModels, std::max<long>(kLanes, room / bytes / kLanes * kLanes));
    }

    void run(long begin, long end, Totals& totals) {
        begin_ = begin, size_ = end - begin;
        const long states = size_ * Sb_;
        E_.resize(static_cast<size_t>(states * C_));
        if (mixtures_) eta_.resize(static_cast<size_t>(states * job_.base.M * job_.reduced.M * C_));
        const bool carried = pass_.is_warm();
        if (!carried) emissions(0, size_, pass_.all_panels);
        if (pass_.J) return all_J();
        slots_.clear(), passed_over_.clear();
        best_.assign(static_cast<size_t>(size_), kBelowAll);
        if (pass_.prune) carried ? carried_bounds() : bound_pairs();
        pass_.prune && !pass_.again() ? promising(carried, totals) : everything(totals);
        assign(totals);
        accumulate(totals);
    }

   private:
    // Of n base models of the block, from number i on, for the columns of some panels.
    void emissions(long i, long n, const std::vector<long>& panels) {
        const long row = i * Sb_;
        double* eta = mixtures_ ? &eta_[row * job_.base.M * job_.reduced.M * C_] : nullptr;
        pass_.columns->emissions(panels, begin_ * Sb_ + row, n * Sb_, &E_[row * C_], eta, worker_, scratch_);
    }

    double logit(Pair pair, double J) const { return pass_.logit(begin_ + pair.i, pair.c, J); }

    // J_ij ≤ Σ_β (Σ_t p_t(β)) max_ρ E(β,ρ).
    double bound(Pair pair) const {
        const double *occupancy = job_.weights.occupancy + (begin_ + pair.i) * Sb_, *row = &E_[pair.i * Sb_ * C_ + pair.c * Sr_];
        const long n = job_.reduced.n_states[pass_.clusters[pair.c]];
        double sum = 0;
        for (long b = 0; b < job_.base.n_states[begin_ + pair.i]; ++b, row += C_) {
            double top = row[0];
            for (long s = 1; s < n; ++s) top = std::max(top, row[s]);
            sum += occupancy[b] * top;
        }
        return sum;
    }

    // A bound on the logit of a pair whose emissions are known.
    void bound_pair(Pair pair) {
        const double J = bound(pair);
        upper_[pair.i * n_clusters_ + pair.c] = logit(pair, J);
        if (pass_.carried) carry(pair, J);
    }

    void carry(Pair pair, double J) { pass_.carried->keep(begin_ + pair.i, pass_.clusters[pair.c], visits_[pair.i], J); }

    void count_visits() {
        visits_.resize(static_cast<size_t>(size_));
        for (long i = 0; i < size_; ++i) visits_[i] = pass_.visits(begin_ + i);
    }

    void bound_pairs() {
        count_visits();
        upper_.resize(static_cast<size_t>(size_ * n_clusters_));
        for (long i = 0; i < size_; ++i)
            for (long c = 0; c < n_clusters_; ++c) bound_pair({i, c});
    }

    void carried_bounds() {
        count_visits();
        upper_.resize(static_cast<size_t>(size_ * n_clusters_));
        for (long i = 0; i < size_; ++i) {
            const long k = begin_ + i;
            double* upper = &upper_[i * n_clusters_];
            pass_.carried->move(k, visits_[i]);
            pass_.carried->bounds(k, visits_[i], upper);
            const double scale = job_.weights.scales[k], count = job_.weights.counts[k];
            for (long c = 0; c < n_clusters_; ++c) upper[c] = scale * pass_.log_weights[c] + count * upper[c];
        }
    }

    // Emissions of base model i in the clusters wanted, and bounds that know them.
    void look_closer(long i) {
        panels_wanted_.clear();
        for (long c : wanted_[i])
            for (long panel = c * Sr_ / kLanes; panel <= (c * Sr_ + Sr_ - 1) / kLanes; ++panel)
                if (panels_wanted_.empty() || panels_wanted_.back() < panel) panels_wanted_.push_back(panel);
        emissions(i, 1, panels_wanted_);
        for (long c : wanted_[i]) bound_pair({i, c});
    }

    // The clusters whose bounds are above a limit, several looked at at a time.
    void find_above(double limit, const double* upper, std::vector<long>& found) const {
        found.clear();
        for (long c = 0; c < n_clusters_; c += kLanes) {
            const int n = static_cast<int>(std::min<long>(kLanes, n_clusters_ - c));
            const vec some = load_partial(upper + c, n);  // lanes beyond n may hold anything
            if (!any(some > limit)) continue;
            for (int l = 0; l < n; ++l)
                if (some[l] > limit) found.push_back(c + l);
        }
    }

    // The same for what the bounds carried do not rule out; if that is much, emissions are computed for the whole block.
    void look_closer_where_needed() {
        long n = 0;
        for (long i = 0; i < size_; ++i) {
            find_above(best_[i] - kCutoff - kCarriedMargin, &upper_[i * n_clusters_], wanted_[i]);
            n += static_cast<long>(wanted_[i].size());
        }
        if (2 * n > size_ * n_clusters_) {
            emissions(0, size_, pass_.all_panels);
            for (long i = 0; i < size_; ++i)
                for (long c : wanted_[i]) bound_pair({i, c});
        } else {
            for (long i = 0; i < size_; ++i) look_closer(i);
        }
    }

    // The cluster that a base model was nearest to, if it is still there, else the most promising.
    long first_choice(long i, bool carried) {
        const double* upper = &upper_[i * n_clusters_];
        if (!carried) return std::max_element(upper, upper + n_clusters_) - upper;
        const long nearest = pass_.carried->nearest(begin_ + i);
        const long c = nearest >= 0 ? nearest : std::max_element(upper, upper + n_clusters_) - upper;
        wanted_[i].assign(1, c);
        look_closer(i);
        return c;
    }

    // A pair with a logit below this can be left out.
    double threshold(Pair pair) const {
        if (!pass_.prune) return -INFINITY;
        return (pass_.again() ? pass_.log_sum[begin_ + pair.i] + pass_.reach[pair.c] : best_[pair.i]) - kCutoff;
    }

    // First every base model's most promising cluster. Then what could still matter: if that is much, all of it in order;
    // if it is little, the best first, in rounds to which each base model brings one, for each may rule out the next.
    void promising(bool carried, Totals& totals) {
        Pair pairs[kLanes];
        int n = 0;
        wanted_.resize(static_cast<size_t>(size_));
        for (long i = 0; i < size_; ++i) {
            pairs[n++] = {i, first_choice(i, carried)};
            if (n == kLanes || i == size_ - 1) evaluate(pairs, n, totals), n = 0;
        }
        for (const auto* list : {&slots_, &passed_over_})
            for (const Slot& slot : *list) upper_[slot.i * n_clusters_ + slot.c] = kBelowAll;
        if (carried) look_closer_where_needed();
        long left = 0;
        candidates_.resize(static_cast<size_t>(size_));
        for (long i = 0; i < size_; ++i) {
            candidates_[i].clear();
            for (long c : carried ? wanted_[i] : pass_.all_clusters)
                if (upper_[i * n_clusters_ + c] >= threshold({i, c}))
                    candidates_[i].push_back({upper_[i * n_clusters_ + c], c});
            left += static_cast<long>(candidates_[i].size());
        }
        left > size_ * n_clusters_ / 4 ? everything(totals) : rounds(totals);
    }

    void rounds(Totals& totals) {
        std::vector<long> alive(static_cast<size_t>(size_));
        for (long i = 0; i < size_; ++i) {
            alive[i] = i;
            std::sort(candidates_[i].begin(), candidates_[i].end());
        }
        Pair pairs[kLanes];
        while (!alive.empty()) {
            int n = 0;
            size_t still = 0;
            for (long i : alive) {
                auto& candidates = candidates_[i];
                if (candidates.empty() || candidates.back().first < threshold({i, candidates.back().second})) continue;
                pairs[n++] = {i, candidates.back().second};
                candidates.pop_back();
                alive[still++] = i;
                if (n == kLanes) evaluate(pairs, n, totals), n = 0;
            }
            if (n) evaluate(pairs, n, totals);
            alive.resize(still);
        }
    }

    void everything(Totals& totals) {
        Pair pairs[kLanes];
        int n = 0;
        for (long i = 0; i < size_; i += kLanes)
            for (long c = 0; c < n_clusters_; ++c)
                for (long k = i; k < std::min(size_, i + kLanes); ++k) {
                    if (pass_.prune && upper_[k * n_clusters_ + c] < threshold({k, c})) continue;
                    pairs[n++] = {k, c};
                    if (n == kLanes) evaluate(pairs, n, totals), n = 0;
                }
        if (n) evaluate(pairs, n, totals);
    }

    void all_J() {
        Pair pairs[kLanes];
        for (long i = 0; i < size_; i += kLanes) {
            const int n = static_cast<int>(std::min<long>(kLanes, size_ - i));
            for (long c = 0; c < (pass_.diagonal ? 1 : n_clusters_); ++c) {
                for (int l = 0; l < n; ++l) pairs[l] = {i + l, pass_.diagonal ? begin_ + i + l : c};
                const Pack& pack = run_backward(pairs, n);
                for (int l = 0; l < n; ++l) {
                    const long row = begin_ + pairs[l].i;
                    pass_.J[pass_.diagonal ? row : row * n_clusters_ + c] = pack.J[l];
                }
            }
        }
    }

    // Backward passes of n pairs, in pack_ (observed_, if base states are in pieces) or, if numbers became too small, in
    // careful_.
    __attribute__((noinline)) Pack& run_backward(const Pair* pairs, int n) {
        worker_.checkpoint();
        if (job_.whole.n_nodes) {
            load_observed(pairs, n);
            backward(observed_, job_.recursion.tau, job_.recursion.early_stop, worker_);
            if (!lost(observed_)) return observed_;
        }
        load_pack(pack_, pairs, n);
        backward(pack_, job_.recursion.tau, job_.recursion.early_stop, worker_);
        if (!lost(pack_)) return pack_;
        for (auto& pair : loaded_) pair.i = -1;
        load_pack(careful_, pairs, n);
        for (auto& pair : loaded_) pair.i = -1;
        backward_careful(careful_, job_.recursion.tau, job_.recursion.early_stop, worker_);
        return careful_;
    }

    __attribute__((noinline)) void evaluate(const Pair* pairs, int n, Totals& totals) {
        const Pack& pack = run_backward(pairs, n);
        double logits[kLanes];
        for (int l = 0; l < n; ++l) {
            logits[l] = logit(pairs[l], pack.J[l]);
            if (pass_.carried) carry(pairs[l], pack.J[l]);
            best_[pairs[l].i] = std::max(best_[pairs[l].i], logits[l]);
        }
        totals.evaluated += n;
        unsigned matters = 0;
        for (int l = 0; l < n; ++l)
            if (logits[l] < threshold(pairs[l]))
                passed_over_.push_back({pairs[l].i, pairs[l].c, logits[l], 0});
            else
                matters |= 1u << l;
        if (!matters) return;
        if (&pack == &careful_)
            forward_careful(careful_, worker_);
        else
            &pack == &observed_ ? forward(observed_, worker_) : forward(pack_, worker_);
        for (int l = 0; l < n; ++l)
            if (matters >> l & 1) keep(pairs[l], logits[l], pack, l);
        totals.forwarded += __builtin_popcount(matters);
    }

    void keep(Pair pair, double logit, const Pack& pack, int lane) {
        const size_t size = static_cast<size_t>(Sr_ + Sr_ * Sr_ + Sb_ * Sr_), at = slots_.size() * size;
        slots_.push_back({pair.i, pair.c, logit, at});
        if (stats_.size() < at + size) stats_.resize(2 * (at + size));
        double *nu1 = &stats_[at], *xi = nu1 + Sr_, *nu = xi + Sr_ * Sr_;
        const int R = pack.R;
        const long nr = job_.reduced.n_states[pass_.clusters[pair.c]], nb = job_.base.n_states[begin_ + pair.i];
        if (nr < Sr_ || nb < Sb_) std::fill_n(nu1, size, 0.0);
        for (long s = 0; s < nr; ++s) nu1[s] = pack.nu1[s][lane];
        for (long s = 0; s < nr; ++s)
            for (long t = 0; t < nr; ++t) xi[s * Sr_ + t] = pack.xi[s * R + t][lane];
        for (long b = 0; b < nb; ++b)
            for (long s = 0; s < nr; ++s) nu[b * Sr_ + s] = pack.N[b * R + s][lane];
    }

    // Pairs into lanes. Where models differ in size, the states a lane lacks are copies of its state 0 that no transition
    // leads to: they change nothing and stay finite. Lanes without a pair repeat the first.
    void load_pack(Pack& pack, const Pair* pairs, int n) {
        long B = 1, R = 1;
        for (int l = 0; l < n; ++l) {
            B = std::max<long>(B, job_.base.n_states[begin_ + pairs[l].i]);
            R = std::max<long>(R, job_.reduced.n_states[pass_.clusters[pairs[l].c]]);
        }
        if (B != pack.B || R != pack.R) {
            pack.reserve(static_cast<int>(B), static_cast<int>(R));
            for (auto& pair : loaded_) pair.i = -1;
        }
        for (int l = 0; l < kLanes; ++l) load_lane(pack, pairs[l < n ? l : 0], l);
    }

    __attribute__((noinline)) void load_lane(Pack& pack, Pair pair, int lane) {
        const long i = begin_ + pair.i, j = pass_.clusters[pair.c], B = pack.B, R = pack.R;
        const long nb = job_.base.n_states[i], nr = job_.reduced.n_states[j];
        if (loaded_[lane].i != i) load_chain(job_.base, i, B, pack.pi_b, pack.A_b, lane);
        if (loaded_[lane].i != i || loaded_[lane].c != j) load_chain(job_.reduced, j, R, pack.pi_r, pack.A_r, lane);
        loaded_[lane] = {i, j};
        const double* E = &E_[pair.i * Sb_ * C_ + pair.c * Sr_];
        double* to = reinterpret_cast<double*>(pack.E) + lane;
        for (long b = 0; b < B; ++b) {
            const double* row = E + (b < nb ? b : 0) * C_;
            for (long s = 0; s < nr; ++s, to += kLanes) *to = row[s];
            for (long s = nr; s < R; ++s, to += kLanes) *to = row[0];
        }
    }

    void load_observed(const Pair* pairs, int n) {
        const Whole& whole = job_.whole;
        long B = 1, R = 1;
        for (int l = 0; l < n; ++l) {
            B = std::max<long>(B, whole.n_states[begin_ + pairs[l].i]);
            R = std::max<long>(R, job_.reduced.n_states[pass_.clusters[pairs[l].c]]);
        }
        observed_.reserve(static_cast<int>(B), static_cast<int>(R), static_cast<int>(whole.M), static_cast<int>(whole.n_nodes));
        for (int l = 0; l < kLanes; ++l) load_observed_lane(pairs[l < n ? l : 0], l);
        observed_.exponentiate();
    }

    __attribute__((noinline)) void load_observed_lane(Pair pair, int lane) {
        const Whole& whole = job_.whole;
        const long i = begin_ + pair.i, j = pass_.clusters[pair.c], nb = whole.n_states[i], nr = job_.reduced.n_states[j];
        load_chain(whole, i, observed_.B, observed_.pi_b, observed_.A_b, lane);
        load_chain(job_.reduced, j, observed_.R, observed_.pi_r, observed_.A_r, lane);
        double *share = reinterpret_cast<double*>(observed_.shares) + lane, *to = reinterpret_cast<double*>(observed_.X) + lane;
        for (long b = 0; b < observed_.B; ++b) {
            const long state = b < nb ? b : 0;
            for (long m = 0; m < whole.M; ++m, share += kLanes)
                *share = whole.mix_weights[(i * whole.S + state) * whole.M + m] / static_cast<double>(whole.n_nodes);
            for (long p = 0; p < observed_.P; ++p) {
                const double* row = &E_[(pair.i * Sb_ + state * observed_.P + p) * C_ + pair.c * Sr_];
                for (long s = 0; s < observed_.R; ++s, to += kLanes) *to = row[s < nr ? s : 0];
            }
        }
    }

    template <class Chains>
    __attribute__((noinline)) static void load_chain(const Chains& models, long k, long S, vec* pi, vec* A, int lane) {
        const long n = models.n_states[k];
        const double *startprob = models.startprob + k * models.S, *transmat = models.transmat + k * models.S * models.S;
        double *to_pi = reinterpret_cast<double*>(pi) + lane, *to = reinterpret_cast<double*>(A) + lane;
        for (long s = 0; s < S; ++s) to_pi[s * kLanes] = s < n ? startprob[s] : 0;
        for (long s = 0; s < S; ++s) {
            const double* row = transmat + (s < n ? s : 0) * models.S;
            for (long t = 0; t < n; ++t, to += kLanes) *to = row[t];
            for (long t = n; t < S; ++t, to += kLanes) *to = 0;
        }
    }

    // log Σ_j exp(logit), responsibilities, the bound, and what the pairs not carried forward could add up to.
    void assign(Totals& totals) {
        double* log_sum = pass_.log_sum + begin_;
        if (!pass_.again()) {
            std::fill_n(log_sum, size_, 0.0);
            for (const Slot& slot : slots_) log_sum[slot.i] += std::exp(slot.logit - best_[slot.i]);
            for (long i = 0; i < size_; ++i) totals.bound += log_sum[i] = best_[i] + std::log(log_sum[i]);
            if (pass_.prune) count_skipped(totals);
        }
        if (pass_.carried && !pass_.again())
            for (const Slot& slot : slots_)
                if (slot.logit == best_[slot.i]) pass_.carried->set_nearest(begin_ + slot.i, pass_.clusters[slot.c]);
        for (Slot& slot : slots_) {
            const double z = std::exp(slot.logit - log_sum[slot.i]);
            const long i = begin_ + slot.i, j = pass_.clusters[slot.c];
            if (pass_.responsibilities) pass_.responsibilities[i * job_.reduced.K + j] = z;
            totals.in_use[slot.c] = 1;
            totals.mass[slot.c] += job_.weights.scales[i] * z;
            slot.logit = z * job_.weights.counts[i];  // from here on the pair's weight in the M-step
        }
    }

    void count_skipped(Totals& totals) {
        const double* log_sum = pass_.log_sum + begin_;
        for (const Slot& slot : slots_) upper_[slot.i * n_clusters_ + slot.c] = kBelowAll;
        for (const Slot& slot : passed_over_) upper_[slot.i * n_clusters_ + slot.c] = slot.logit;
        if (pass_.is_warm()) {  // what carried bounds ruled out is counted only where a cluster has next to no mass
            for (long i = 0; i < size_; ++i)
                for (long c : wanted_[i]) totals.skip(begin_ + i, c, upper_[i * n_clusters_ + c] - log_sum[i], job_.weights.scales[begin_ + i]);
            return;
        }
        for (long i = 0; i < size_; ++i)
            for (long c = 0; c < n_clusters_; c += kLanes) {
                const int n = static_cast<int>(std::min<long>(kLanes, n_clusters_ - c));
                const vec gap = load_partial(&upper_[i * n_clusters_ + c], n) - log_sum[i];
                if (!any(gap > kLeastGap)) continue;
                const vec bounded = vmax(vmin(gap, splat(-kLeastGap)), splat(kLeastGap));  // lanes beyond n may hold anything
                const vec share = job_.weights.scales[begin_ + i] * vexp(bounded);
                store_partial(&totals.skipped[c], load_partial(&totals.skipped[c], n) + (gap > kLeastGap ? share : vec{}), n);
                for (int l = 0; l < n; ++l)
                    if (gap[l] > kLeastGap) totals.nearest[c + l] = std::max(totals.nearest[c + l], {gap[l], -(begin_ + i)});
            }
    }

    // The pairs' statistics, times their weights, into the totals, cluster by cluster.
    void accumulate(Totals& totals) {
        place_.assign(static_cast<size_t>(n_clusters_ + 1), 0);
        for (const Slot& slot : slots_) ++place_[slot.c + 1];
        for (long c = 0; c < n_clusters_; ++c) place_[c + 1] += place_[c];
        order_.resize(slots_.size());
        for (size_t s = 0; s < slots_.size(); ++s) order_[place_[slots_[s].c]++] = s;
        for (long c = 0; c < n_clusters_; ++c) accumulate_cluster(c, c ? place_[c - 1] : 0, place_[c], totals);
    }

    void accumulate_cluster(long c, size_t begin, size_t end, Totals& totals) {
        const long Mb = job_.base.M, Mr = job_.reduced.M, G = Sr_ * Mr;
        if (begin == end) return;
        worker_.checkpoint();
        rows_.clear();
        weights_.resize((end - begin) * static_cast<size_t>(Sb_ * Mb * G));
        double* to = weights_.data();
        for (size_t e = begin; e < end; ++e) {
            const Slot& slot = slots_[order_[e]];
            const double *nu1 = &stats_[slot.at], *xi = nu1 + Sr_, *nu = xi + Sr_ * Sr_, w = slot.logit;
            if (w == 0) continue;
            for (long s = 0; s < Sr_; ++s) totals.start[c * Sr_ + s] += w * nu1[s];
            for (long s = 0; s < Sr_ * Sr_; ++s) totals.trans[c * Sr_ * Sr_ + s] += w * xi[s];
            for (long b = 0; b < job_.base.n_states[begin_ + slot.i]; ++b)
                for (long m = 0; m < Mb; ++m, to += G) {
                    weigh_gaussian(slot, b, m, w, nu + b * Sr_, to);
                    rows_.push_back({((begin_ + slot.i) * Sb_ + b) * Mb + m, to});
                }
        }
        for (const auto& row : rows_)
            for (long g = 0; g < G; ++g) totals.count[c * G + g] += row.weights[g];
        std::vector<double*> moments;
        for (size_t m = 0; m < totals.moments.size(); ++m) moments.push_back(&totals.moments[m][c * G * job_.emitted.widths[m]]);
        job_.emitted.add_moments(rows_, G, pass_.clusters[c] * G, moments.data());
    }

    // u = w ν̂(ρ,β) c_βm η(ℓ|m;β,ρ) for all (ρ,ℓ).
    void weigh_gaussian(const Slot& slot, long b, long m, double w, const double* nu, double* to) const {
        if (!mixtures_) {
            for (long s = 0; s < Sr_; ++s) to[s] = w * nu[s];
            return;
        }
        const long Mb = job_.base.M, Mr = job_.reduced.M;
        const double c = w * job_.base.mix_weights[((begin_ + slot.i) * Sb_ + b) * Mb + m];
        const double* eta = &eta_[((slot.i * Sb_ + b) * Mb + m) * Mr * C_ + slot.c * Sr_];
        for (long s = 0; s < Sr_; ++s)
            for (long l = 0; l < Mr; ++l) to[s * Mr + l] = c * nu[s] * eta[l * C_ + s];
    }
};

// The sums of chunks, added up in the order of the chunks, whoever ends first. With many clusters these are megabytes each:
// memory is used again for the next chunk, because fresh memory costs more than what is added up in it.
class InOrder {
    const Job& job_;
    const size_t size_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Totals>> unused_, waiting_;
    size_t next_ = 0;

   public:
    Totals all;

    InOrder(const Job& job, size_t size, long n_chunks)
        : job_(job), size_(size), waiting_(static_cast<size_t>(n_chunks)), all(job, size) {}

    std::unique_ptr<Totals> take() {
        std::unique_lock<std::mutex> lock(mutex_);
        if (unused_.empty()) return lock.unlock(), std::make_unique<Totals>(job_, size_);
        auto found = std::move(unused_.back());
        unused_.pop_back();
        lock.unlock();
        found->clear();
        return found;
    }

    void give(long chunk, std::unique_ptr<Totals> made) {
        const std::lock_guard<std::mutex> lock(mutex_);
        waiting_[chunk] = std::move(made);
        for (; next_ < waiting_.size() && waiting_[next_]; ++next_) {
            all.add(*waiting_[next_]);
            unused_.push_back(std::move(waiting_[next_]));
        }
    }
};

Totals run_pass(Call& call, const Pass& pass) {
    const Job& job = pass.job;
    const long size = Block::block_size(pass), n_blocks = (job.base.K + size - 1) / size;
    const long room = std::max<long>(4, kChunkBytes / std::max<long>(1, Totals::bytes(job, pass.size())));
    const long n_chunks = std::min({n_blocks, kChunks, room});
    InOrder totals(job, pass.J ? 0 : pass.size(), n_chunks);
    std::vector<std::unique_ptr<Block>> blocks(static_cast<size_t>(call.n_threads));
    parallel_for(call, n_chunks, [&](long chunk, Worker& worker) {
        const Denormals flushed(Denormals::kFlush);
        auto& block = blocks[worker.index];
        if (!block) block = std::make_unique<Block>(pass, worker);
        auto sums = totals.take();
        for (long b = chunk * n_blocks / n_chunks; b < (chunk + 1) * n_blocks / n_chunks; ++b)
            block->run(b * size, std::min(job.base.K, (b + 1) * size), *sums);
        totals.give(chunk, std::move(sums));
    });
    return std::move(totals.all);
}

// Calls work(job) with base and reduced models of the family that they belong to.
template <class Given, class About, class Work>
void with_job(const Given& base, const Given& reduced, const About& about, const Recursion& recursion, Work work) {
    with_family(base, [&](auto family) {
        using Family = decltype(family);
        const auto b = models_of<Family>(base), r = models_of<Family>(reduced);
        const EmittedBy<Family> emitted(b, r, about);
        Job job{b, r, emitted, recursion};
        work(job);
    });
}

const double* no_anchors(const GaussianModels&) { return nullptr; }
PartAnchors no_anchors(const PartModels&) { return {nullptr, nullptr}; }

std::vector<long> numbers(long n) {
    std::vector<long> all(static_cast<size_t>(n));
    for (long j = 0; j < n; ++j) all[j] = j;
    return all;
}

void expected_log_likelihoods(Call& call, const Job& job, bool diagonal, double* J) {
    Pass pass(job, numbers(job.reduced.K), false, nullptr, nullptr, J);
    pass.diagonal = diagonal;
    run_pass(call, pass);
}

// Where the E-step leaves its results.
struct Results {
    double *mass, *responsibilities;  // (K_r,), (K_b, K_r) or null
    const Sums& sums;
    long evaluated = 0, forwarded = 0;
};

// The E-step over all clusters that have weight, and over the starved ones once more.
class EStep {
    Call& call_;
    const Job& job_;
    Results& results_;
    std::vector<double> log_sum_;

   public:
    EStep(Call& call, const Job& job, Results& results)
        : call_(call), job_(job), results_(results), log_sum_(static_cast<size_t>(job.base.K)) {}

    // For the mixture of the reduced models [begin, end); returns its bound.
    double run(long begin, long end) {
        std::vector<long> alive, starved;
        std::vector<double> reach;
        for (long j = begin; j < end; ++j)
            if (std::isfinite(job_.log_weights[j])) alive.push_back(j);
        if (alive.empty()) throw std::invalid_argument("log_weights must have at least one finite number.");
        auto first = pass(alive, job_.recursion.prune);
        std::optional<CarriedBounds> carried;
        if (job_.carried) first.carried = &carried.emplace(*job_.carried, job_.base.K, job_.reduced.K, alive);
        auto totals = run_clusters(first);
        if (first.is_warm()) count_ruled_out(first, totals);
        for (size_t c = 0; c < alive.size(); ++c)
            if (totals.skipped[c] > kNegligibleMass * totals.mass[c]) {
                starved.push_back(alive[c]);
                reach.push_back(log_responsibility(-totals.nearest[c].second, alive[c]));
            }
        if (!starved.empty()) {
            auto again = pass(starved, true);
            again.reach = std::move(reach), again.carried = first.carried;
            run_clusters(again);
        }
        return totals.bound;
    }

   private:
    Pass pass(const std::vector<long>& clusters, bool prune) {
        return Pass(job_, clusters, prune, log_sum_.data(), results_.responsibilities, nullptr);
    }

    // Pairs that carried bounds ruled out have responsibilities below exp(-kCutoff - kCarriedMargin). Where all of them together
    // could show in a cluster, they are counted one by one; pairs that were looked at closer then count again.
    void count_ruled_out(const Pass& pass, Totals& totals) {
        const double* scales = job_.weights.scales;
        const double most = std::exp(-kCutoff - kCarriedMargin) * std::accumulate(scales, scales + job_.base.K, 0.0);
        std::vector<long> small;
        for (long c : pass.all_clusters)
            if (most > kNegligibleMass * totals.mass[c]) small.push_back(c);
        for (long i = 0; i < job_.base.K && !small.empty(); ++i) {
            const double visits = pass.visits(i);
            for (long c : small) {
                const double gap = pass.logit(i, c, pass.carried->bound(i, c, visits)) - log_sum_[i];
                if (gap < -kCutoff) totals.skip(i, c, gap, scales[i]);
            }
        }
    }

    // log z_ij of one pair.
    double log_responsibility(long i, long j) {
        std::vector<double> J(static_cast<size_t>(job_.base.K));
        Totals unused(job_, 0);
        const Pass one(job_, {j}, false, nullptr, nullptr, J.data());
        Block(one, call_.caller).run(i, i + 1, unused);
        return job_.weights.scales[i] * job_.log_weights[j] + job_.weights.counts[i] * J[i] - log_sum_[i];
    }

    Totals run_clusters(const Pass& pass) {
        Totals totals = run_pass(call_, pass);
        results_.evaluated += totals.evaluated, results_.forwarded += totals.forwarded;
        const long S = job_.reduced.S, G = S * job_.reduced.M;
        const Sums& sums = results_.sums;
        write(pass, totals.mass, results_.mass, 1);
        write(pass, totals.start, sums.start, S);
        write(pass, totals.trans, sums.trans, S * S);
        write(pass, totals.count, sums.occupancy, G);
        for (size_t m = 0; m < totals.moments.size(); ++m)
            write(pass, totals.moments[m], sums.moments(static_cast<int>(m)), G * job_.emitted.widths[m]);
        return totals;
    }

    static void write(const Pass& pass, const std::vector<double>& from, double* to, long width) {
        for (size_t c = 0; c < pass.size(); ++c)
            std::copy_n(&from[c * static_cast<size_t>(width)], width, to + pass.clusters[c] * width);
    }
};

void check_both(const GaussianModels& base, const GaussianModels& reduced) {
    if (!base.chains.K || !reduced.chains.K) refuse("there must be at least one base model and one reduced model.");
    if (base.emissions.d != reduced.emissions.d || base.emissions.full != reduced.emissions.full)
        refuse("the base and the reduced models must have one dimension and one type of covariances, got covars of shape " +
               shape_of(base.emissions.arrays[2]) + " and " + shape_of(reduced.emissions.arrays[2]) + ".");
}

void check_both(const PartModels& base, const PartModels& reduced) {
    const PartMixtures &b = base.emissions, &r = reduced.emissions;
    if (!base.chains.K || !reduced.chains.K) refuse("there must be at least one base model and one reduced model.");
    if (b.diagonal != r.diagonal || b.full != r.full || b.linear != r.linear || b.n_tables || r.n_tables)
        refuse("the base and the reduced models must have the same parts, and no tables.");
}

// The chains of base models whose states are in pieces, with the weights of their components; none if `chains` is null.
template <class Models>
Whole whole_of(const Models& base, const Chains* chains, const std::optional<Input>& weights, int n_nodes) {
    if (!chains) return {};
    if (!weights) refuse("mix_weights must be given with whole states.");
    const long M = weights->ndim() == 3 ? size_of(*weights, 2) : 0;
    const double* c = doubles(*weights, "mix_weights", {chains->K, chains->S, M});
    if (chains->K != base.chains.K || n_nodes < 2 || n_nodes % 2 || base.chains.S != chains->S * M * n_nodes)
        refuse("base must have n_nodes pieces, an even number, for every component of the whole states.");
    for (long i = 0; i < chains->K; ++i)
        if (base.chains.n_states[i] != chains->n_states[i] * M * n_nodes) refuse("n_states of base must count the pieces.");
    return {chains->S, M, n_nodes, chains->startprob, chains->transmat, c, chains->n_states};
}

// J of every pair, (K_b, K_r); with `diagonal`, of every model against itself, (K,).
template <class Models>
void expected_log_likelihood(const Models& base, const Models& reduced, const Recursion& recursion, bool diagonal, Output J,
                             const Run& run, const Chains* whole, std::optional<Input> mix_weights, int n_nodes) {
    check_both(base, reduced);
    const Whole pieces = whole_of(base, whole, mix_weights, n_nodes);
    const long Kb = base.chains.K, Kr = reduced.chains.K;
    if (diagonal && Kb != Kr) refuse("the diagonal of J is that of as many reduced as base models.");
    double* to = diagonal ? doubles_out(J, "J", {Kb}) : doubles_out(J, "J", {Kb, Kr});
    run_call(run, [&](Call& call) {
        with_job(base, reduced, no_anchors(reduced), recursion, [&](Job& job) {
            job.whole = pieces;
            expected_log_likelihoods(call, job, diagonal, to);
        });
    });
}

// The reduced models are one mixture or several of one size, each assigned on its own: fills the `bounds` of all, `mass`,
// (K_r,), the sums and, where given, the responsibilities, (K_b, K_r). Returns the pairs evaluated and those carried forward.
template <class Models, class About>
nb::tuple run_e_step(const Models& base, BaseWeights weights, const Models& reduced, Input log_weights, const About& about,
                     const Recursion& recursion, Output bounds, Output mass, const Sums& sums,
                     std::optional<Output> responsibilities, const Run& run, const Whole& whole, Carried* carried) {
    const auto& e = reduced.emissions;
    const long n = std::max<long>(1, size_of(bounds, 0)), each = e.K / n;
    double* bound = doubles_out(bounds, "bounds", {n});
    if (n * each != e.K) refuse("bounds must have one entry for each of several mixtures of one size.");
    weights.check(base.chains);
    const double* log_w = doubles(log_weights, "log_weights", {e.K});
    double* z = responsibilities ? doubles_out(*responsibilities, "responsibilities", {base.chains.K, e.K}) : nullptr;
    if (carried) carried->check(base.chains.K, e.K);
    if (carried && (n > 1 || !recursion.prune)) refuse("bounds are carried for one mixture, and where pairs may be skipped.");
    Results results{doubles_out(mass, "mass", {e.K}), z, sums};
    run_call(run, [&](Call& call) {
        with_job(base, reduced, about, recursion, [&](Job& job) {
            job.log_weights = log_w, job.whole = whole, job.carried = carried;
            job.weights = {weights.occupancy, weights.counts, weights.scales};
            EStep step(call, job, results);
            for (long k = 0; k < n; ++k) bound[k] = step.run(k * each, (k + 1) * each);
        });
    });
    return nb::make_tuple(results.evaluated, results.forwarded);
}

nb::tuple e_step(const GaussianModels& base, const BaseWeights& weights, const GaussianModels& reduced, Input log_weights,
                 Input anchors, const Recursion& recursion, Output bounds, Output mass, Sums sums,
                 std::optional<Output> responsibilities, const Run& run, const Chains* whole, std::optional<Input> mix_weights,
                 int n_nodes, Carried* carried) {
    check_both(base, reduced);
    const GaussianMixtures& e = reduced.emissions;
    sums.check(e);
    const double* about = doubles(anchors, "anchors", {e.K, e.S, e.M, e.d});
    const Whole pieces = whole_of(base, whole, mix_weights, n_nodes);
    return run_e_step(base, weights, reduced, log_weights, about, recursion, bounds, mass, sums, responsibilities, run, pieces,
                      carried);
}

nb::tuple e_step_of_parts(const PartModels& base, const BaseWeights& weights, const PartModels& reduced, Input log_weights,
                          const PartMixtures& anchors, const Recursion& recursion, Output bounds, Output mass, Sums sums,
                          std::optional<Output> responsibilities, const Run& run) {
    check_both(base, reduced);
    const PartMixtures& e = reduced.emissions;
    sums.check(e, PartRows(e).offsets().width), e.check_anchors(anchors);
    const PartAnchors about = PartFamily::anchors(anchors);
    return run_e_step(base, weights, reduced, log_weights, about, recursion, bounds, mass, sums, responsibilities, run, {}, nullptr);
}

// Seconds per exponential, logarithm and fused multiply-add of one thread at its best, everything in the first-level
// cache: the practical limit that benchmarks measure against.
nb::tuple best_rates() {
    constexpr int n = 64, repeats = 20000;
    VecArray memory;
    memory.resize(n);
    vec *x = memory.data(), keep = {};
    for (int e = 0; e < n; ++e) x[e] = splat(-0.01 * e - 0.3);
    auto seconds = [&](auto work) {
        double best = 1e9;
        for (int trial = 0; trial < 5; ++trial) {
            const auto start = std::chrono::steady_clock::now();
            for (int r = 0; r < repeats; ++r) {
                work();
                asm volatile("" ::: "memory");
            }
            best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        return best / (static_cast<double>(repeats) * n * kLanes);
    };
    const double exp_time = seconds([&] { for (int e = 0; e < n; ++e) keep += vexp(x[e]); });
    const double log_time = seconds([&] { for (int e = 0; e < n; ++e) keep += vlog(-x[e]); });
    vec sums[12] = {};
    const double fma_time = seconds([&] {
        for (int e = 0; e < n; ++e)
            for (int s = 0; s < 12; ++s) sums[s] = fma(sums[s], x[e], x[0]);
    }) / 12;
    for (int s = 0; s < 12; ++s) keep += sums[s];
    if (std::isnan(keep[0])) return nb::make_tuple(0.0, 0.0, 0.0);  // uses the results, so that they are computed
    return nb::make_tuple(exp_time, log_time, fma_time);
}

}  // namespace

void bind_vhem(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Carried>(m, "Carried")
        .def(nb::init<Output, Output, Input, Input, Input, Input>(), nb::kw_only(), "distance"_a, "nearest"_a, "ceiling"_a,
             "shrink"_a, "shift"_a, "gain"_a);
    m.def("expected_log_likelihood", &expected_log_likelihood<GaussianModels>, nb::kw_only(), "base"_a, "reduced"_a,
          "recursion"_a, "diagonal"_a, "J"_a, "run"_a, "whole"_a.none() = nb::none(), "mix_weights"_a.none() = nb::none(),
          "n_nodes"_a = 0);
    m.def("expected_log_likelihood", &expected_log_likelihood<PartModels>, nb::kw_only(), "base"_a, "reduced"_a, "recursion"_a,
          "diagonal"_a, "J"_a, "run"_a, "whole"_a.none() = nb::none(), "mix_weights"_a.none() = nb::none(), "n_nodes"_a = 0);
    m.def("e_step_of_parts", &e_step_of_parts, nb::kw_only(), "base"_a, "weights"_a, "reduced"_a, "log_weights"_a, "anchors"_a,
          "recursion"_a, "bounds"_a, "mass"_a, "sums"_a, "responsibilities"_a.none(), "run"_a);
    m.def("e_step", &e_step, nb::kw_only(), "base"_a, "weights"_a, "reduced"_a, "log_weights"_a, "anchors"_a, "recursion"_a,
          "bounds"_a, "mass"_a, "sums"_a, "responsibilities"_a.none(), "run"_a, "whole"_a.none() = nb::none(),
          "mix_weights"_a.none() = nb::none(), "n_nodes"_a = 0, "carried"_a.none() = nb::none());
    m.def("best_rates", &best_rates);
}
