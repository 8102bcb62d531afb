"""What can be said after a clustering: tests, effects, associations and scales."""

from vhem.inference.associate import Association, Associations, Members, associate
from vhem.inference.bootstrap import BootstrapTest, bootstrap_test
from vhem.inference.cross_fit import CrossFitted, CrossFittedPair, cross_fitted_test
from vhem.inference.describe import Description, describe_hmm, likeliest_paths
from vhem.inference.gain import GainTest, group_gain_test
from vhem.inference.groups import GroupComparison, PairOfGroups, compare_groups
from vhem.inference.scores import SubjectScores, ab_scale, log_odds, scale_between, subject_scores
from vhem.inference.t_tests import (
    SymmetricTest,
    TTest,
    independent_t_test,
    paired_t_test,
    stimulus_anova,
    symmetric_kl_test,
)
from vhem.inference.tables import Table

__all__ = [
    "Association",
    "Associations",
    "BootstrapTest",
    "CrossFitted",
    "CrossFittedPair",
    "Description",
    "GainTest",
    "GroupComparison",
    "Members",
    "PairOfGroups",
    "SubjectScores",
    "SymmetricTest",
    "TTest",
    "Table",
    "ab_scale",
    "associate",
    "bootstrap_test",
    "compare_groups",
    "cross_fitted_test",
    "describe_hmm",
    "group_gain_test",
    "independent_t_test",
    "likeliest_paths",
    "log_odds",
    "paired_t_test",
    "scale_between",
    "stimulus_anova",
    "subject_scores",
    "symmetric_kl_test",
]
