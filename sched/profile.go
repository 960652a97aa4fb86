package sched

// DefaultProfile is the list of kube-scheduler's default profile, as far as it concerns nodes and their resources.
func DefaultProfile() Profile {
	return Profile{
		Filters: []Filter{
			{"NodeName", FilterNodeName},
			{"NodeUnschedulable", FilterNodeUnschedulable},
			{"TaintToleration", FilterTaintToleration},
			{"NodeAffinity", FilterNodeAffinity},
			{"NodePorts", FilterNodePorts},
			{"NodeResourcesFit", FilterNodeResourcesFit},
		},
		Scores: []Score{
			{"TaintToleration", 3, ScoreTaintToleration},
			{"NodeAffinity", 2, ScoreNodeAffinity},
			{"NodeResourcesFit", 1, LeastAllocated(CPUAndMemory())},
			{"NodeResourcesBalancedAllocation", 1, ScoreNodeResourcesBalancedAllocation},
			{"ImageLocality", 1, ScoreImageLocality},
		},
	}
}
