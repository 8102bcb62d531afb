// Independent tasks over a few threads. What a task computes must not depend on which thread runs it, so that an
// answer is the same for any number of threads: tasks write to places of their own, summed afterwards in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace {

// Calls work(task, thread) for every task in [0, n_tasks).
template <class Work>
void parallel_for(long n_tasks, int n_threads, Work work) {
    n_threads = static_cast<int>(std::min<long>(std::max(n_threads, 1), std::max(n_tasks, 1L)));
    std::atomic<long> next{0};
    auto run = [&](int thread) {
        for (long task; (task = next++) < n_tasks;) work(task, thread);
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < n_threads; ++thread) others.emplace_back(run, thread);
    run(0);
    for (auto& other : others) other.join();
}

}  // namespace
