"""The algorithms as scikit-learn estimators and functions, one file each."""
