// How likely the sequences of base systems are under a reduced system, kLanes base systems at a time.
//
// Σ_t E[eᵀ Σ_t⁻¹ e] is a sum of traces with E[s_t s_tᵀ], s = [z; x̂]. E[z zᵀ] is the base systems' own. What concerns x̂ is not
// carried forward: its weights are carried backward. What the frames from t on cost is tr(N E[x̂ x̂ᵀ]) + 2 tr(Xᵀ E[x̂ zᵀ]) and
// what depends on E[z zᵀ] alone, with N and X those of the frame after on the right, zero at the end, and B = C_rᵀ R_r⁻¹ C:
//
//     N ← U D + Lᵀ N L      X ← -U B + Lᵀ (N gain B + X A_b)
//     frame t adds  tr(CᵀR_r⁻¹C E[z zᵀ]) + tr([gainᵀ (N gain B + 2 X A_b) - V^f B]ᵀ B E[z zᵀ]) + tr((gainᵀ N gain - V^f) noise).
//
// N belongs to the reduced system. Both forget the end of the sequence as fast as the filter forgets its beginning, so the frames
// between are done at once, however many there are.
#pragma once

#include "lds_bases.hpp"

namespace {

// What N makes of a frame, for up to kLanes reduced systems.
class HindsightInLanes {
    VecArray parts_;  // Lᵀ N gain - U and gainᵀ N gain - V^f, (n, n) each, of all frames that differ
    VecArray first_;  // N of the first frame, (n, n)

  public:
    const long n;
    std::vector<long> place;  // of a frame among those that differ

    HindsightInLanes(FilterInLanes& f, long tau, Worker& worker) : n(f.n), place(tau) {
        const long size = n * n, steady = f.kept() - 1;
        first_.resize(3 * size);
        vec *N = first_.data(), *next = N + size, *scratch = next + size;
        std::fill_n(N, size, vec{});
        long rows = 0;
        bool moved = true;
        for (long t = tau - 1; t >= 0; --t) {
            worker.checkpoint_at(t);
            if (moved || t < steady) {
                parts_.resize(2 * size * ++rows);
                weigh(f, t, N, parts_.data() + 2 * size * (rows - 1), scratch);
                move_back(f, t, N, next, scratch);
                moved = !is_steady(N, next, n);
                std::copy_n(next, size, N);
            }
            place[t] = rows - 1;
        }
    }

    long rows() const { return place[0] + 1; }
    const vec* parts() { return parts_.data(); }
    const vec* first() { return first_.data(); }

  private:
    void weigh(FilterInLanes& f, long t, const vec* N, vec* out, vec* scratch) const {
        const long size = n * n;
        const vec *gain = f.part(t, kGain), *U = f.part(t, kU), *Vf = f.part(t, kVf);
        for (long i = 0; i < size; ++i) out[i] = -U[i], out[size + i] = -Vf[i];
        product(scratch, view(N, n), view(gain, n), n);
        product(out, transposed(f.part(t, kL), n), view(scratch, n), n, Put::kAdd);
        product(out + size, transposed(gain, n), view(scratch, n), n, Put::kAdd);
    }

    void move_back(FilterInLanes& f, long t, const vec* N, vec* next, vec* scratch) const {
        const vec* L = f.part(t, kL);
        std::copy_n(f.part(t, kUD), n * n, next);
        product(scratch, view(N, n), view(L, n), n);
        product(next, transposed(L, n), view(scratch, n), n, Put::kAdd);
        make_symmetric(next, n);
    }
};

// One lane of it.
class Hindsight {
    std::vector<double> parts_, first_;
    const std::vector<long> place_;
    const long size_;

  public:
    Hindsight(HindsightInLanes& all, int lane)
        : parts_(2 * all.rows() * all.n * all.n), first_(all.n * all.n), place_(all.place), size_(all.n * all.n) {
        scatter_row(lane, all.parts(), static_cast<long>(parts_.size()), parts_.data());
        scatter_row(lane, all.first(), size_, first_.data());
    }

    const double* by_state(long t) const { return &parts_[2 * size_ * place_[t]]; }      // Lᵀ N gain - U
    const double* by_noise(long t) const { return by_state(t) + size_; }                 // gainᵀ N gain - V^f
    const double* first() const { return first_.data(); }
    bool same(long t, long u) const { return place_[t] == place_[u]; }
};

// One pack of pairs.
class PackScore {
    const System& r;
    const Filter& f;
    const Hindsight& h;
    Bases& b;
    const long n, p;
    Registers room;
    vec *B, *X, *X_new, *XA, *seen, *weights, *noise, *CRC, *stretch;  // (n, p) six times; (n, n); (p, p) twice
    vec own_noise = {}, total = {};

  public:
    PackScore(const System& r, const Filter& f, const Hindsight& h, Bases& b)
        : r(r), f(f), h(h), b(b), n(r.n), p(b.p), room(6 * n * p + n * n + 2 * p * p) {
        for (vec** at : {&B, &X, &X_new, &XA, &seen, &weights}) *at = room.take(n * p);
        noise = room.take(n * n);
        for (vec** at : {&CRC, &stretch}) *at = room.take(p * p);
        b.seen_by(r, B, p, noise);
        compare();
    }

    // E_b[log p(y_1:τ | r)] of every lane.
    vec score(Worker& worker) {
        const long steady = f.kept() - 1;
        total = inner(CRC, b.total(b.tau), p * p);
        for (long t = b.tau - 1; t >= 0; --t) {
            worker.checkpoint_at(t);
            add_frames(t, b.second(t), 1);
            const bool moved = move_back(t);
            if (moved || t - steady < 2 || !h.same(t - 1, t)) continue;
            for (long i = 0; i < p * p; ++i) stretch[i] = b.total(t)[i] - b.total(steady)[i];
            add_frames(steady, stretch, static_cast<double>(t - steady));
            t = steady;
        }
        return -0.5 * (total + first_frame());
    }

  private:
    void compare() {
        VecArray scaled;
        scaled.resize(b.d * p);
        const vec* C = b.C.data();
        for (long j = 0; j < b.d; ++j) {
            const double precision = 1.0 / r.R[j];
            own_noise += b.R.data()[j] * precision;
            for (long i = 0; i < p; ++i) scaled.data()[j * p + i] = C[j * p + i] * precision;
        }
        product(CRC, p, transposed(C, p), view(scaled.data(), p), p, b.d, p);
    }

    // `count` frames like t, whose E[z zᵀ] add up to S. Leaves X A_b.
    void add_frames(long t, const vec* S, double count) {
        product(XA, p, view(X, p), view(b.A.data(), p), n, p, p);
        product(weights, p, transposed(f.part(t, kGain), n), view(XA, p), n, n, p);
        for (long i = 0; i < n * p; ++i) weights[i] *= 2.0;
        product(weights, p, view(h.by_noise(t), n), view(B, p), n, n, p, Put::kAdd);
        product(seen, p, view(B, p), view(S, p), n, p, p);
        vec constant = f.log_det(t) + own_noise;
        for (long i = 0; i < n * n; ++i) constant = fma(splat(h.by_noise(t)[i]), noise[i], constant);
        total += inner(weights, seen, n * p) + count * constant;
    }

    // X of frame t from X A_b; whether it differs from that of the frame after.
    bool move_back(long t) {
        product(X_new, p, view(h.by_state(t), n), view(B, p), n, n, p);
        product(X_new, p, transposed(f.part(t, kL), n), view(XA, p), n, n, p, Put::kAdd);
        const bool moved = !is_steady_map(X, X_new, b.second(t), n, p);
        std::swap(X, X_new);
        return moved;
    }

    // tr(N E[x̂ x̂ᵀ]) + 2 tr(Xᵀ E[x̂ zᵀ]), with x̂ the first state's mean and E[z] beside the constant.
    vec first_frame() const {
        vec sum = {};
        for (long i = 0; i < n; ++i) {
            vec row = {};
            for (long j = 0; j < p; ++j) row = fma(X[i * p + j], b.second(0)[j * p + p - 1], row);
            double own = 0;
            for (long j = 0; j < n; ++j) own += h.first()[i * n + j] * r.mean[j];
            sum += r.mean[i] * (own + 2.0 * row);
        }
        return sum;
    }
};

}  // namespace
