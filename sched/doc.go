// Package sched answers which node a pod should run on, and why not on the others.
//
// It is a pure library on the API types: no clock, no randomness of its own, no goroutines, no input or output. The
// answers are those of kube-scheduler's default profile, point for point and word for word, with one difference: every
// node is always considered.
//
//	Cache.SetNode, AddPod, Assume ...        what the loop has seen
//	        │ Snapshot()                     frozen, cheap: shares what did not change
//	        ▼
//	Profile ── Filters ─► feasible nodes ── Scores ─► points ─► best total, ties by seed ─► Decision
//	                │                                     │
//	                └─ none left ─► *FitError             └─ Explain: the same figures for every node
//
// A complete use:
//
//	var cache sched.Cache
//	for _, node := range nodes {
//		cache.SetNode(node)
//	}
//	for _, pod := range pods { // bound, nominated or pending: the cache sorts them out
//		cache.AddPod(pod)
//	}
//	profile := sched.DefaultProfile()
//	profile.Seed = 1
//	decision, err := sched.Schedule(pending, cache.Snapshot(), profile)
//	var unfit *sched.FitError
//	switch {
//	case errors.As(err, &unfit):
//		fmt.Println(unfit) // 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. ...
//	case err != nil:
//		return err
//	default:
//		cache.Assume(pending, decision.Node) // until the bound pod is seen, or Forget
//	}
package sched
