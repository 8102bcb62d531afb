// The recursions of pairs.hpp for base states in pieces: the variational distribution sees in which piece the observation lies.
//
// A base state γ emits from piece p with probability c_γp, and e(γ,p,σ) takes the place of E(γ,σ). As exp(e + Λ) factorises,
// the exponentials of e are computed once per pair; and as the nodes of a component weigh the same, the sum of the logs is
// the log of a product. So a step has as many exponentials and logarithms as without pieces:
//
//     U = exp(Λ - m),  Q(γ,p,ρ) = Σ_σ a_ρσ U(γ,σ) X(γ,p,σ),  T(γ,ρ) = ε(γ) + Σ_m c_γm/n log Π_u Q(γ,(m,u),ρ)
//
// where X = exp(e - max_σ e), and ε collects the maxima. What underflows is left to the other forms, in which pieces are
// states.
#pragma once

#include "pairs.hpp"

namespace {

constexpr int kNodesPerLog = 8;  // whose sums are multiplied before a logarithm is taken

struct ObservedPack : Pack {
    int M = 0, n_nodes = 0, P = 0;  // components per state, nodes per component, pieces per state
    vec *X, *shares, *epsilon;      // X(γ,p,σ); c_γm / n_nodes; ε(γ)
    vec *AU, *r_p, *now;            // of one state: a_ρσ U(γ,σ), r for all its pieces, and ν
    VecArray start_q;               // Σ_σ π_σ U X of every piece, at time 1

    void reserve(int b, int r, int m, int nodes) {
        M = m, n_nodes = nodes, P = m * nodes;
        Pack::reserve(b, r, P);
        more_.resize(static_cast<size_t>(b * (P * r + m + 1) + r * r + P * r + r));
        vec* at = more_.data();
        auto take = [&](vec*& field, int n) { field = at, at += n; };
        take(X, b * P * r), take(shares, b * m), take(epsilon, b), take(AU, r * r), take(r_p, P * r), take(now, r);
        for (int e = 0; e < b * r; ++e) E[e] = vec{};  // Λ alone is carried from step to step
    }

    // X holds e(γ,p,σ): its exponentials, and the maxima.
    void exponentiate() {
        for (int b = 0; b < B; ++b) {
            epsilon[b] = vec{};
            for (int p = 0; p < P; ++p) {
                vec* x = X + (b * P + p) * R;
                epsilon[b] = fma(shares[b * M + p / n_nodes], split_row(x, R, x), epsilon[b]);
                for (int c = 0; c < R; ++c) x[c] = vexp(x[c]);
            }
        }
    }

   private:
    VecArray more_;
};

// Q(p,·) of the nodes of one component, two at a time so that each number of AU is read once for both, and Σ c/n log Π Q
// added to T. `product` is room for `rows` registers. Returns the smallest product.
template <int RT>
inline vec weigh_nodes(const vec* AU, int rows, int R, const vec* X, int n_nodes, vec share, vec* Q, vec* product, vec* T) {
    vec lowest = splat(1.0);
    for (int first = 0; first < n_nodes; first += kNodesPerLog) {
        for (int c = 0; c < rows; ++c) product[c] = splat(1.0);
        for (int u = first; u < std::min(n_nodes, first + kNodesPerLog); u += 2) {
            vec x[RT ? RT : 1], y[RT ? RT : 1];
            if constexpr (RT > 0)
                for (int s = 0; s < RT; ++s) x[s] = X[u * RT + s], y[s] = X[(u + 1) * RT + s];
            for (int c = 0; c < rows; ++c) {
                const vec* a = AU + c * R;
                vec one = {}, two = {};
                for (int s = 0; s < (RT ? RT : R); ++s) {
                    one = fma(a[s], RT ? x[RT ? s : 0] : X[u * R + s], one);
                    two = fma(a[s], RT ? y[RT ? s : 0] : X[(u + 1) * R + s], two);
                }
                Q[u * rows + c] = one, Q[(u + 1) * rows + c] = two;
                product[c] *= one * two;
            }
        }
        for (int c = 0; c < rows; ++c) {
            lowest = vmin(lowest, product[c]);
            T[c] = fma(share, vlog(product[c]), T[c]);
        }
    }
    return lowest;
}

// U, Q and T of all states from Y.
template <int RT>
inline void weigh_pieces(ObservedPack& p, vec* U, vec* Q) {
    const int B = p.B, R = RT ? RT : p.R;
    for (int e = 0; e < B * R; ++e) U[e] = vexp(p.Y[e]);
    for (int b = 0; b < B; ++b) {
        for (int c = 0; c < R; ++c)
            for (int s = 0; s < R; ++s) p.AU[c * R + s] = p.A_r[c * R + s] * U[b * R + s];
        for (int c = 0; c < R; ++c) p.T[b * R + c] = p.epsilon[b];
        for (int m = 0; m < p.M; ++m) {
            const int at = (b * p.P + m * p.n_nodes) * R;
            const vec low = weigh_nodes<RT>(p.AU, RT ? RT : R, R, p.X + at, p.n_nodes, p.shares[b * p.M + m], Q + at, p.now, p.T + b * R);
            p.lowest = vmin(p.lowest, low);
        }
    }
}

// Backward pass. Leaves J, and in `lowest` the smallest product that a logarithm was taken of.
template <int RT>
void backward_fast(ObservedPack& p, int tau, bool early_stop, Worker& worker) {
    const int B = p.B, R = RT ? RT : p.R;
    p.tape.begin(B * R, B * p.P * R, tau - 1);
    for (int b = 0; b < B; ++b) p.m[b] = vec{};
    for (int e = 0; e < B * R; ++e) p.Y[e] = vec{};
    if (!steps_back<RT>(p, tau, early_stop, worker, [&](Tape::Step step) { weigh_pieces<RT>(p, step.first, step.second); })) return;
    const vec* U = p.tape.last().first;
    p.start_q.resize(static_cast<size_t>(B * p.P));
    for (int b = 0; b < B; ++b) {
        vec total = p.epsilon[b];
        for (int s = 0; s < R; ++s) p.AU[s] = p.pi_r[s] * U[b * R + s];
        for (int m = 0; m < p.M; ++m) {
            const int at = b * p.P + m * p.n_nodes;
            const vec low = weigh_nodes<RT>(p.AU, 1, R, p.X + at * R, p.n_nodes, p.shares[b * p.M + m], p.start_q.data() + at, p.now, &total);
            p.lowest = vmin(p.lowest, low);
        }
        p.J = fma(p.pi_b[b], p.stretch ? total : total + p.m[b], p.J);
    }
}

// ν one time step on; ν̂ of all pieces and ξ̂ are added to `sums`. Returns max |Δν|.
template <int RT>
__attribute__((noinline)) vec forward_pieces(ObservedPack& p, const vec* U, const vec* Q, vec* sums) {
    const int B = p.B, R = RT ? RT : p.R;
    vec change = {}, *xi = sums + B * p.P * R;
    for (int b = 0; b < B; ++b)
        combine<RT>(R, B, p.A_b + b, B, p.nu, R, [](int) { return vec{}; }, [&](int c, vec v) { p.r[b * R + c] = v; });
    for (int b = 0; b < B; ++b) {
        vec* now = p.now;
        for (int c = 0; c < R; ++c) now[c] = vec{};
        for (int c = 0; c < R; ++c)
            for (int s = 0; s < R; ++s) p.AU[c * R + s] = p.A_r[c * R + s] * U[b * R + s];
        for (int u = 0; u < p.P; u += 2) {  // two pieces share a reciprocal
            const int at = (b * p.P + u) * R;
            vec* r = p.r_p + u * R;
            const vec share = p.shares[b * p.M + u / p.n_nodes];
            for (int c = 0; c < R; ++c) {
                const vec scale = share * p.r[b * R + c] * reciprocal(Q[at + c] * Q[at + R + c]);
                r[c] = scale * Q[at + R + c], r[R + c] = scale * Q[at + c];
            }
            for (int e = 0; e < 2 * R; e += R)
                combine<RT>(R, R, r + e, 1, p.AU, R, [](int) { return vec{}; }, [&](int s, vec v) {
                    v *= p.X[at + e + s];
                    now[s] += v;
                    sums[at + e + s] += v;
                });
        }
        for (int c = 0; c < R; ++c)
            combine<RT>(R, p.P, p.r_p + c, R, p.X + b * p.P * R, R, [](int) { return vec{}; },
                        [&](int s, vec v) { xi[c * R + s] = fma(v, p.AU[c * R + s], xi[c * R + s]); });
        for (int c = 0; c < R; ++c) change = vmax(change, vabs(now[c] - p.nu[b * R + c])), p.nu[b * R + c] = now[c];
    }
    return change;
}

inline void weigh_pieces_any(ObservedPack& p, Tape::Step step) { weigh_pieces<0>(p, step.first, step.second); }
inline void forward_pieces_any(ObservedPack& p, Tape::Step step) { forward_pieces<0>(p, step.first, step.second, p.N); }

// Forward pass over the steps that backward_fast made.
template <int RT>
void forward_fast(ObservedPack& p, Worker& worker) {
    const int B = p.B, R = RT ? RT : p.R;
    const Tape::Step last = p.tape.last();
    for (int c = 0; c < R; ++c) p.nu1[c] = vec{};
    for (int e = 0; e < B * R; ++e) p.nu[e] = vec{};
    for (int e = 0; e < R * R; ++e) p.xi[e] = vec{};
    for (int b = 0; b < B; ++b)
        for (int u = 0; u < p.P; ++u) {
            const int at = (b * p.P + u) * R;
            const vec scale = p.pi_b[b] * p.shares[b * p.M + u / p.n_nodes] * reciprocal(p.start_q.data()[b * p.P + u]);
            for (int s = 0; s < R; ++s) {
                const vec v = p.X[at + s] * last.first[b * R + s] * p.pi_r[s] * scale;
                p.N[at + s] = v;
                p.nu[b * R + s] += v;
                p.nu1[s] += v;
            }
        }
    if (p.stretch) forward_stretch(p, worker, [&](vec* sums) { return forward_pieces<RT>(p, last.first, last.second, sums); });
    retrace<Retraced<ObservedPack, weigh_pieces_any, forward_pieces_any>>(p, worker, [&](Tape::Step step) {
        forward_pieces<RT>(p, step.first, step.second, p.N);
    });
}

}  // namespace
