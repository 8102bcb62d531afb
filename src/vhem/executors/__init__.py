"""Where work runs: here, in threads, or on a Dask cluster. One small interface, so that algorithms need not care."""

from vhem.executors.dask import ClusterLostError, DaskExecutor
from vhem.executors.local import Executor, SerialExecutor, ThreadsExecutor, as_executor

__all__ = ["ClusterLostError", "DaskExecutor", "Executor", "SerialExecutor", "ThreadsExecutor", "as_executor"]
