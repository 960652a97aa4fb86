package sched

import (
	"math"
)

// ScoreNodeResourcesBalancedAllocation prefers nodes where the pod makes the use of cpu and memory more even: 75 points
// mean that it changes nothing, 50 and 100 are the limits. Pods that request neither get no points anywhere.
func ScoreNodeResourcesBalancedAllocation(c *Cycle, _ []*NodeInfo) Rating {
	milliCPU, memory := c.Pod.Requests.MilliCPU, c.Pod.Requests.Memory
	if milliCPU == 0 && memory == 0 {
		return Rating{}
	}
	return Rating{Rate: func(n *NodeInfo) int64 {
		with := balance(n.Requested.MilliCPU+milliCPU, n.Requested.Memory+memory, &n.Allocatable)
		return MaxPoints/2 + (MaxPoints/2+with-n.balance)/2
	}}
}

// balance is 100 where the same share of cpu and of memory is in use, down to 50 where all of one and none of the other.
func balance(milliCPU, memory int64, allocatable *Resources) int64 {
	if allocatable.MilliCPU == 0 || allocatable.Memory == 0 {
		return MaxPoints
	}
	cpuShare := min(1, float64(milliCPU)/float64(allocatable.MilliCPU))
	memoryShare := min(1, float64(memory)/float64(allocatable.Memory))
	deviation := math.Abs((cpuShare - memoryShare) / 2)
	return int64((1 - deviation) * MaxPoints)
}
