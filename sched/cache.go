package sched

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Cache gathers nodes and pods as they come and yields Snapshots cheaply: what has not changed is shared with the
// snapshots before. Objects handed in must not change afterwards. Every method may be called again with the same
// argument, and in any order. The zero value is ready; a Cache has one owner.
type Cache struct {
	now    Snapshot
	pods   map[podKey]placed
	absent map[string]*NodeInfo // pods seen on nodes that are not, or no longer, there

	// What the last Snapshot shares with now: pages and nodes stamped with an earlier epoch, maps if the flag is set.
	epoch       uint64
	pageEpoch   []uint64
	nodeEpoch   []uint64
	mapsShared  bool
	imageShared bool
	unchanged   *Snapshot
}

// podKey is the pod's uid, or its name where there is none.
type podKey struct{ uid, namespace, name string }

func keyOf(pod *corev1.Pod) podKey {
	if pod.UID != "" {
		return podKey{uid: string(pod.UID)}
	}
	return podKey{namespace: pod.Namespace, name: pod.Name}
}

// placed is where a pod is counted.
type placed struct {
	info *PodInfo
	node string
	how  placement
}

type placement int8

const (
	bound placement = iota
	assumed
	nominated
)

// SetNode adds the node or replaces what was known of it.
func (c *Cache) SetNode(node *corev1.Node) {
	c.unchanged = nil
	if i, ok := c.now.index[node.Name]; ok {
		n := c.writable(i)
		before := *n
		n.setNode(node)
		if !sameImages(before.Node, node) {
			c.countImages(before.images, -1, nil)
			c.countImages(n.images, 1, node)
		}
		return
	}
	n := c.absent[node.Name]
	delete(c.absent, node.Name)
	if n == nil {
		n = newNodeInfo(node)
	} else {
		n.setNode(node)
	}
	c.countImages(n.images, 1, node)
	c.push(n)
}

// RemoveNode forgets the node. Its pods are remembered, should it come back, until they are removed.
func (c *Cache) RemoveNode(name string) {
	i, ok := c.now.index[name]
	if !ok {
		return
	}
	c.unchanged = nil
	n := c.now.at(i)
	c.countImages(n.images, -1, nil)
	if len(n.Pods) > 0 || len(n.Nominated) > 0 {
		c.setAbsent(n.clone().detach())
	}
	last := c.now.size - 1
	c.ownMaps()
	if i != last {
		moved := c.now.at(last)
		c.ownPage(i / pageSize)[i%pageSize] = moved
		c.nodeEpoch[i] = c.nodeEpoch[last]
		c.now.index[moved.Name] = i
	}
	delete(c.now.index, name)
	c.pop()
}

// AddPod adds the pod or replaces what was known of it. Bound pods count on their node, nominated ones where they are
// to get room; pods that have ended count nowhere. A pod that is assumed stays so until it is seen bound.
func (c *Cache) AddPod(pod *corev1.Pod) {
	old, known := c.pods[keyOf(pod)]
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		c.RemovePod(pod)
	case pod.Spec.NodeName != "":
		c.place(pod, pod.Spec.NodeName, bound)
	case known && old.how == assumed:
	case pod.Status.NominatedNodeName != "":
		c.place(pod, pod.Status.NominatedNodeName, nominated)
	default:
		c.RemovePod(pod)
	}
}

// RemovePod forgets the pod, wherever it was counted.
func (c *Cache) RemovePod(pod *corev1.Pod) {
	key := keyOf(pod)
	old, known := c.pods[key]
	if !known {
		return
	}
	delete(c.pods, key)
	c.withdraw(old)
}

// Assume counts the pod on the node that it has been given, before that is seen. What was seen already stands.
func (c *Cache) Assume(pod *corev1.Pod, node string) {
	if old, known := c.pods[keyOf(pod)]; known && old.how == bound {
		return
	}
	c.place(pod, node, assumed)
}

// Forget takes back an Assume that came to nothing. It leaves pods alone that were seen bound meanwhile.
func (c *Cache) Forget(pod *corev1.Pod) {
	if old, known := c.pods[keyOf(pod)]; known && old.how == assumed {
		c.RemovePod(pod)
	}
}

// Snapshot is what the cache holds now. Without a change in between, it is the same as before.
func (c *Cache) Snapshot() *Snapshot {
	if c.unchanged != nil {
		return c.unchanged
	}
	c.epoch++
	c.mapsShared, c.imageShared = true, true
	s := c.now
	s.pages = slices.Clone(c.now.pages)
	c.unchanged = &s
	return &s
}

func (c *Cache) place(pod *corev1.Pod, node string, how placement) {
	key := keyOf(pod)
	old, known := c.pods[key]
	if known && old.info.Pod == pod && old.node == node && old.how == how {
		return
	}
	if known {
		c.withdraw(old)
	}
	p := placed{info: NewPodInfo(pod), node: node, how: how}
	if c.pods == nil {
		c.pods = map[podKey]placed{}
	}
	c.pods[key] = p
	c.change(node, func(n *NodeInfo) {
		if how == nominated {
			n.Nominated = append(n.Nominated, p.info)
			return
		}
		n.add(p.info)
	})
}

func (c *Cache) withdraw(p placed) {
	c.change(p.node, func(n *NodeInfo) {
		if p.how != nominated {
			n.remove(p.info)
			return
		}
		n.Nominated = without(n.Nominated, slices.Index(n.Nominated, p.info))
	})
}

// change applies f to the node's figures, whether the node is there or not.
func (c *Cache) change(node string, f func(*NodeInfo)) {
	if i, ok := c.now.index[node]; ok {
		c.unchanged = nil
		f(c.writable(i))
		return
	}
	n := c.absent[node]
	if n == nil {
		n = &NodeInfo{}
	}
	f(n)
	if len(n.Pods) == 0 && len(n.Nominated) == 0 {
		delete(c.absent, node)
		return
	}
	n.Name = node
	c.setAbsent(n)
}

func (c *Cache) setAbsent(n *NodeInfo) {
	if c.absent == nil {
		c.absent = map[string]*NodeInfo{}
	}
	c.absent[n.Name] = n
}

// writable is node i, copied if a snapshot has it.
func (c *Cache) writable(i int) *NodeInfo {
	page := c.ownPage(i / pageSize)
	if c.nodeEpoch[i] != c.epoch {
		page[i%pageSize] = page[i%pageSize].clone()
		c.nodeEpoch[i] = c.epoch
	}
	return page[i%pageSize]
}

// ownPage is a page, copied if a snapshot has it.
func (c *Cache) ownPage(i int) []*NodeInfo {
	if c.pageEpoch[i] != c.epoch {
		page := make([]*NodeInfo, len(c.now.pages[i]), pageSize)
		copy(page, c.now.pages[i])
		c.now.pages[i] = page
		c.pageEpoch[i] = c.epoch
	}
	return c.now.pages[i]
}

// ownMaps makes the index writable.
func (c *Cache) ownMaps() {
	if c.mapsShared || c.now.index == nil {
		c.now.index = maps.Clone(c.now.index)
		c.mapsShared = false
	}
	if c.now.index == nil {
		c.now.index = map[string]int{}
	}
}

func (c *Cache) push(n *NodeInfo) {
	c.ownMaps()
	i := c.now.size
	if i%pageSize == 0 {
		c.now.pages = append(c.now.pages, make([]*NodeInfo, 0, pageSize))
		c.pageEpoch = append(c.pageEpoch, c.epoch)
	}
	c.now.pages[i/pageSize] = append(c.ownPage(i/pageSize), n)
	c.nodeEpoch = append(c.nodeEpoch, c.epoch)
	c.now.index[n.Name] = i
	c.now.size++
}

// pop drops the last position.
func (c *Cache) pop() {
	last := c.now.size - 1
	page := c.ownPage(last / pageSize)
	page[last%pageSize] = nil
	c.now.pages[last/pageSize] = page[:last%pageSize]
	if last%pageSize == 0 {
		c.now.pages = c.now.pages[:last/pageSize]
		c.pageEpoch = c.pageEpoch[:last/pageSize]
	}
	c.nodeEpoch = c.nodeEpoch[:last]
	c.now.size--
}

// countImages adds sign to the number of nodes of each image; sizes are taken from the node where an image is new.
func (c *Cache) countImages(names map[string]struct{}, sign int, node *corev1.Node) {
	if len(names) == 0 {
		return
	}
	if c.imageShared || c.now.image == nil {
		c.now.image = maps.Clone(c.now.image)
		c.imageShared = false
	}
	if c.now.image == nil {
		c.now.image = map[string]imageState{}
	}
	for name := range names {
		state, known := c.now.image[name]
		if !known {
			state.size = imageSize(node, name)
		}
		state.nodes += sign
		if state.nodes == 0 {
			delete(c.now.image, name)
			continue
		}
		c.now.image[name] = state
	}
}
