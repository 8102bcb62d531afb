"""What can be said after a clustering: tests, effects, associations and scales."""

from vhem.inference.associate import Association, Associations, Members, associate
from vhem.inference.bootstrap import BootstrapTest, bootstrap_test
from vhem.inference.comparison import Comparison, compare_clusters
from vhem.inference.consensus import Consensus, consensus
from vhem.inference.cross_fit import CrossFitted, CrossFittedPair, cross_fitted_test
from vhem.inference.describe import Description, describe_hmm, likeliest_paths
from vhem.inference.differences import ClusterDifference, Estimate, cluster_differences
from vhem.inference.gain import GainTest, group_gain_test
from vhem.inference.gap import Gap, gap_statistic
from vhem.inference.groups import GroupComparison, PairOfGroups, compare_groups
from vhem.inference.pieces import Pieces, disconnected_centers
from vhem.inference.quality import Quality, clustering_quality
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
    "ClusterDifference",
    "Comparison",
    "Consensus",
    "CrossFitted",
    "CrossFittedPair",
    "Description",
    "Estimate",
    "GainTest",
    "Gap",
    "GroupComparison",
    "Members",
    "PairOfGroups",
    "Pieces",
    "Quality",
    "SubjectScores",
    "SymmetricTest",
    "TTest",
    "Table",
    "ab_scale",
    "associate",
    "bootstrap_test",
    "cluster_differences",
    "clustering_quality",
    "compare_clusters",
    "compare_groups",
    "consensus",
    "cross_fitted_test",
    "describe_hmm",
    "disconnected_centers",
    "gap_statistic",
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
