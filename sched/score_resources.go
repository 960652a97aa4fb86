package sched

import (
	"math"

	corev1 "k8s.io/api/core/v1"
)

// ResourceWeight is how much a resource counts in a strategy of NodeResourcesFit.
type ResourceWeight struct {
	Name   corev1.ResourceName
	Weight int64
}

// ShapePoint is a corner of the line that gives points for a utilization, both from 0 to 100.
type ShapePoint struct {
	Utilization, Points int64
}

// CPUAndMemory weighs the two alike, which is the default of all strategies.
func CPUAndMemory() []ResourceWeight {
	return []ResourceWeight{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}
}

// LeastAllocated makes a score that prefers nodes with much left, so that pods are spread.
func LeastAllocated(resources []ResourceWeight) func(*Cycle, []*NodeInfo) Rating {
	return fitScore(resources, func(used, allocatable int64) (int64, bool) {
		if used > allocatable {
			return 0, true
		}
		return (allocatable - used) * MaxPoints / allocatable, true
	}, quotient)
}

// MostAllocated makes a score that prefers nodes with little left, so that pods are packed.
func MostAllocated(resources []ResourceWeight) func(*Cycle, []*NodeInfo) Rating {
	return fitScore(resources, func(used, allocatable int64) (int64, bool) {
		return min(used, allocatable) * MaxPoints / allocatable, true
	}, quotient)
}

// RequestedToCapacityRatio makes a score that gives points by utilization, on the line through the given points, which
// are sorted by utilization and at least one. Resources that get no points don't count in the average.
func RequestedToCapacityRatio(resources []ResourceWeight, shape []ShapePoint) func(*Cycle, []*NodeInfo) Rating {
	return fitScore(resources, func(used, allocatable int64) (int64, bool) {
		utilization := int64(100)
		if used <= allocatable {
			utilization = used * 100 / allocatable
		}
		points := interpolate(shape, utilization)
		return points, points > 0
	}, func(sum, weights int64) int64 { return int64(math.Round(float64(sum) / float64(weights))) })
}

func quotient(sum, weights int64) int64 { return sum / weights }

func interpolate(shape []ShapePoint, utilization int64) int64 {
	for i, to := range shape {
		if utilization > to.Utilization {
			continue
		}
		if i == 0 {
			return to.Points
		}
		from := shape[i-1]
		return from.Points + (to.Points-from.Points)*(utilization-from.Utilization)/(to.Utilization-from.Utilization)
	}
	return shape[len(shape)-1].Points
}

// fitScore averages the points of the resources that a node has. Resources other than cpu, memory and ephemeral storage
// count only if the pod requests them.
func fitScore(
	resources []ResourceWeight,
	points func(used, allocatable int64) (value int64, counts bool),
	average func(sum, weights int64) int64,
) func(*Cycle, []*NodeInfo) Rating {
	return func(c *Cycle, _ []*NodeInfo) Rating {
		pod := c.Pod
		return Rating{Rate: func(n *NodeInfo) int64 {
			var sum, weights int64
			for i := range resources {
				used, allocatable := ratedUse(pod, n, resources[i].Name)
				if allocatable == 0 {
					continue
				}
				if value, counts := points(used, allocatable); counts {
					sum += value * resources[i].Weight
					weights += resources[i].Weight
				}
			}
			if weights == 0 {
				return 0
			}
			return average(sum, weights)
		}}
	}
}

// ratedUse is what would be in use of a resource with the pod on the node, and of how much; 0, 0 if it doesn't count.
func ratedUse(pod *PodInfo, n *NodeInfo, name corev1.ResourceName) (used, allocatable int64) {
	switch name {
	case corev1.ResourceCPU:
		return n.NonZero.MilliCPU + pod.Rated.MilliCPU, n.Allocatable.MilliCPU
	case corev1.ResourceMemory:
		return n.NonZero.Memory + pod.Rated.Memory, n.Allocatable.Memory
	case corev1.ResourceEphemeralStorage:
		return n.Requested.EphemeralStorage + pod.Requests.EphemeralStorage, n.Allocatable.EphemeralStorage
	}
	request := pod.Requests.Scalar(name)
	if request == 0 {
		return 0, 0
	}
	return n.Requested.Scalar(name) + request, n.Allocatable.Scalar(name)
}
