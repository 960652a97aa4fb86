package sched

import (
	"iter"
)

// pageSize is how many nodes are copied when one of them changes between two snapshots.
const pageSize = 64

// Snapshot is a frozen view of nodes and pods. It may be read by many at once and kept for as long as wanted. The zero
// value has no nodes.
type Snapshot struct {
	pages [][]*NodeInfo // all full, but the last
	size  int
	index map[string]int // position by name
	image map[string]imageState
}

// imageState is what the cluster knows of an image.
type imageState struct {
	size  int64 // as told by the first node that had it
	nodes int   // how many have it
}

// Len is the number of nodes.
func (s *Snapshot) Len() int {
	if s == nil {
		return 0
	}
	return s.size
}

// Node is the node of that name, nil if there is none.
func (s *Snapshot) Node(name string) *NodeInfo {
	if s == nil {
		return nil
	}
	i, ok := s.index[name]
	if !ok {
		return nil
	}
	return s.at(i)
}

// Nodes goes through all nodes, in an order without meaning.
func (s *Snapshot) Nodes() iter.Seq[*NodeInfo] {
	return func(yield func(*NodeInfo) bool) {
		if s == nil {
			return
		}
		for _, page := range s.pages {
			for _, n := range page {
				if !yield(n) {
					return
				}
			}
		}
	}
}

func (s *Snapshot) at(i int) *NodeInfo {
	return s.pages[i/pageSize][i%pageSize]
}
