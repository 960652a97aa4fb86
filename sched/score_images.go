package sched

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Images below the lower limit give no points; the upper one holds for each image of the pod.
const (
	imageSizeMin = 23 << 20
	imageSizeMax = 1000 << 20
)

// ScoreImageLocality prefers nodes that have the pod's images already, by their sizes. An image counts for less where few
// nodes have it, so that those few are not run hot.
func ScoreImageLocality(c *Cycle, _ []*NodeInfo) Rating {
	type wanted struct {
		name string
		size int64
	}
	var known []wanted
	images := podImages(c.Pod.Pod)
	for _, name := range images {
		if state, ok := c.Snapshot.image[name]; ok {
			spread := float64(state.nodes) / float64(c.Snapshot.Len())
			known = append(known, wanted{name, int64(float64(state.size) * spread)})
		}
	}
	if len(known) == 0 {
		return Rating{}
	}
	limit := imageSizeMax * int64(len(images))
	return Rating{Rate: func(n *NodeInfo) int64 {
		var sum int64
		for i := range known {
			if _, ok := n.images[known[i].name]; ok {
				sum += known[i].size
			}
		}
		sum = min(max(sum, imageSizeMin), limit)
		return MaxPoints * (sum - imageSizeMin) / (limit - imageSizeMin)
	}}
}

// podImages are the images of all containers and image volumes, with repetitions.
func podImages(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, withTag(pod.Spec.InitContainers[i].Image))
	}
	for i := range pod.Spec.Containers {
		names = append(names, withTag(pod.Spec.Containers[i].Image))
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			names = append(names, withTag(image.Reference))
		}
	}
	return names
}

// withTag is the name as nodes report it: with the tag that is meant where there is neither tag nor digest.
func withTag(name string) string {
	if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
		return name + ":latest"
	}
	return name
}

func imageNames(node *corev1.Node) map[string]struct{} {
	if len(node.Status.Images) == 0 {
		return nil
	}
	names := map[string]struct{}{}
	for i := range node.Status.Images {
		for _, name := range node.Status.Images[i].Names {
			names[name] = struct{}{}
		}
	}
	return names
}

// imageSize is the size that the node reports for the image.
func imageSize(node *corev1.Node, name string) int64 {
	for i := range node.Status.Images {
		if slices.Contains(node.Status.Images[i].Names, name) {
			return node.Status.Images[i].SizeBytes
		}
	}
	return 0
}

// sameImages tells whether two states of a node report the same images.
func sameImages(a, b *corev1.Node) bool {
	return slices.EqualFunc(a.Status.Images, b.Status.Images, func(x, y corev1.ContainerImage) bool {
		return x.SizeBytes == y.SizeBytes && slices.Equal(x.Names, y.Names)
	})
}
