// A call from Python: its threads, what ends it early, and how failures come back.
//
// What a task computes must not depend on which thread runs it, so that an answer is the same for any number of threads:
// tasks write to places of their own, summed afterwards in order. Workers pass checkpoints, at most a few milliseconds
// apart; there a call ends when another worker has failed, when a signal handler of Python has raised (Ctrl-C), or when
// the call's stop flag is up.
#pragma once

#include <cstdio>  // nanobind needs it, and Python.h leaves it out under the stable ABI

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "constants.hpp"
#include "simd.hpp"

namespace nb = nanobind;

namespace VHEM_MODULE {

// Raised by one thread of Python to end the calls of others: signal handlers run in the main thread alone.
class StopFlag {
    std::atomic<bool> raised_{false};

  public:
    void raise() { raised_ = true; }
    bool raised() const { return raised_.load(std::memory_order_relaxed); }
};

// How a call is run.
struct Run {
    int n_threads;
    const StopFlag* stop;  // or null
};

}  // namespace VHEM_MODULE

namespace {

using VHEM_MODULE::Run;
using VHEM_MODULE::StopFlag;
using Clock = std::chrono::steady_clock;

struct Stopped {};  // thrown at checkpoints of a call that is to end

class Call;

// A thread that works for a call.
class Worker {
    Call& call_;
    int until_look_ = kCheckpointsPerLook;

  public:
    const int index;  // 0 is the thread that Python called

    Worker(Call& call, int index) : call_(call), index(index) {}
    __attribute__((noinline)) void checkpoint();  // out of the way of the loops around it

    // The checkpoint of a loop with short steps.
    void checkpoint_at(long step) {
        if (__builtin_expect(step % kStepsPerCheckpoint == 0, 0)) checkpoint();
    }
};

// Made without the GIL.
class Call {
    const StopFlag* const stop_;
    std::atomic<bool> ended_{false};
    std::mutex mutex_;
    std::exception_ptr failure_;
    Clock::time_point next_look_ = Clock::now() + std::chrono::milliseconds(kMillisecondsPerLook);
    bool asked_ = false, handles_signals_ = true;

  public:
    const int n_threads;
    Worker caller{*this, 0};

    explicit Call(const Run& run) : stop_(run.stop), n_threads(std::max(run.n_threads, 1)) {}

    bool ended() const { return ended_.load(std::memory_order_relaxed) || (stop_ && stop_->raised()); }

    // The first failure is the one that Python hears of.
    void fail(std::exception_ptr failure) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!failure_) failure_ = failure;
        ended_ = true;
    }

    // Runs part of the call and keeps what it throws.
    template <class Part>
    void guard(Part part) noexcept {
        try {
            part();
        } catch (const Stopped&) {
            ended_ = true;
        } catch (...) {
            fail(std::current_exception());
        }
    }

    void rethrow() {
        if (failure_) std::rethrow_exception(failure_);
        if (ended()) throw Stopped();
    }

    // In the calling thread: lets Python run its signal handlers, if it is time, and passes on what they raise.
    __attribute__((noinline, cold)) void look_for_signals() {
        if (!handles_signals_ || Clock::now() < next_look_) return;
        next_look_ = Clock::now() + std::chrono::milliseconds(kMillisecondsPerLook);
        const Denormals kept(Denormals::kKeep);
        const nb::gil_scoped_acquire gil;
        if (!asked_) {
            const nb::object threading = nb::module_::import_("threading");
            handles_signals_ = threading.attr("current_thread")().is(threading.attr("main_thread")());
            asked_ = true;
        }
        if (PyErr_CheckSignals()) throw nb::python_error();
    }
};

void Worker::checkpoint() {
    if (call_.ended()) throw Stopped();
    if (index == 0 && --until_look_ == 0) {
        until_look_ = kCheckpointsPerLook;
        call_.look_for_signals();
    }
}

// Tasks [0, n) of a call; `work` is what the compiler must not copy to every place that has tasks.
struct Tasks {
    long n;
    void (*work)(void* on, long task, Worker&);
    void* on;
    std::atomic<long> next{0};

    void run(Worker& worker) {
        for (long task; (task = next++) < n;) {
            worker.checkpoint();
            work(on, task, worker);
        }
    }
};

// Threads beside the calling one; whatever happens, they are joined. Where the system gives fewer than asked for, those
// that there are do all the work.
class Helpers {
    Call& call_;
    std::mutex mutex_;
    std::condition_variable finished_;
    int running_ = 0;
    std::vector<std::thread> threads_;

  public:
    Helpers(Call& call, int n, Tasks& tasks) : call_(call) {
        try {
            threads_.reserve(static_cast<size_t>(n));
            for (int i = 1; i <= n; ++i) {
                threads_.emplace_back([this, &tasks, i] {
                    Worker worker(call_, i);
                    call_.guard([&] { tasks.run(worker); });
                    const std::lock_guard<std::mutex> lock(mutex_);
                    --running_;
                    finished_.notify_one();
                });
                const std::lock_guard<std::mutex> lock(mutex_);
                ++running_;
            }
        } catch (const std::system_error&) {
        } catch (const std::bad_alloc&) {
        }
    }
    ~Helpers() {
        for (auto& thread : threads_) thread.join();
    }

    // Until all are done, with an eye on signals.
    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!finished_.wait_for(lock, std::chrono::milliseconds(kMillisecondsPerLook), [&] { return running_ == 0; })) {
            lock.unlock();
            call_.look_for_signals();
            lock.lock();
        }
    }
};

__attribute__((noinline)) void run_tasks(Call& call, Tasks& tasks) {
    const int helpers = static_cast<int>(std::min<long>(call.n_threads, tasks.n)) - 1;
    if (helpers <= 0) return tasks.run(call.caller);
    {
        Helpers others(call, helpers, tasks);
        call.guard([&] {
            tasks.run(call.caller);
            others.wait();
        });
    }
    call.rethrow();
}

// Calls work(task, worker) for every task in [0, n_tasks).
template <class Work>
void parallel_for(Call& call, long n_tasks, Work work) {
    Tasks tasks{n_tasks, [](void* on, long task, Worker& worker) { (*static_cast<Work*>(on))(task, worker); }, &work};
    run_tasks(call, tasks);
}

[[noreturn]] inline void raise(PyObject* type, const char* message) {
    PyErr_SetString(type, message);
    throw nb::python_error();
}

// Runs body(call) without the GIL, and turns what ended it early into exceptions of Python.
template <class Body>
void run_call(const Run& run, Body body) {
    const char* no_memory = "there is not enough memory for this computation: give it fewer models, clusters or sequences "
                            "at a time, or fewer threads (n_jobs).";
    try {
        const nb::gil_scoped_release release;
        Call call(run);
        body(call);
    } catch (const Stopped&) {
        raise(PyExc_KeyboardInterrupt, "the computation was stopped by another thread.");
    } catch (const std::bad_alloc&) {
        raise(PyExc_MemoryError, no_memory);
    } catch (const std::length_error&) {
        raise(PyExc_MemoryError, no_memory);
    }
}

}  // namespace
