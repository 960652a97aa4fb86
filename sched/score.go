package sched

import (
	"slices"
)

// rate fills s.rows with every feasible node's raw values and points, and s.totals with their weighted sums.
func (s *Scheduler) rate(c *Cycle, scores []Score) {
	n := len(s.feasible)
	s.ratings, s.rows = s.ratings[:0], s.rows[:min(len(s.rows), 2*len(scores))]
	for i := range scores {
		s.ratings = append(s.ratings, scores[i].Prepare(c, s.feasible))
	}
	for len(s.rows) < 2*len(scores) {
		s.rows = append(s.rows, nil)
	}
	for i := range s.rows {
		s.rows[i] = slices.Grow(s.rows[i][:0], n)[:n]
	}
	s.totals = slices.Grow(s.totals[:0], n)[:n]
	clear(s.totals)
	for i := range s.ratings {
		raw, points := s.rows[2*i], s.rows[2*i+1]
		if s.ratings[i].Rate == nil {
			clear(raw)
			clear(points)
			continue
		}
		for j, node := range s.feasible {
			raw[j] = s.ratings[i].Rate(node)
		}
		copy(points, raw)
		if s.ratings[i].Normalize != nil {
			s.ratings[i].Normalize(points)
		}
		for j := range points {
			s.totals[j] += scores[i].Weight * points[j]
		}
	}
}

// points is what every score gave to the i-th feasible node.
func (s *Scheduler) points(scores []Score, i int) []Points {
	points := make([]Points, len(scores))
	for j := range scores {
		points[j] = Points{
			Score:    scores[j].Name,
			Raw:      s.rows[2*j][i],
			Weighted: scores[j].Weight * s.rows[2*j+1][i],
		}
	}
	return points
}

// choose takes the node with the highest total. Among equals the seed, the pod and the node's name decide, so that
// neither the order of the nodes nor the one pod's luck sways the next.
func (s *Scheduler) choose(c *Cycle, profile Profile) Decision {
	pod := c.Pod.Pod
	salt := mix(profile.Seed ^ hash(string(pod.UID)) ^ mix(hash(pod.Namespace)^mix(hash(pod.Name))))
	better := func(a, b int) bool {
		if s.totals[a] != s.totals[b] {
			return s.totals[a] > s.totals[b]
		}
		x, y := mix(salt^s.feasible[a].tie), mix(salt^s.feasible[b].tie)
		return x > y || x == y && s.feasible[a].Name < s.feasible[b].Name
	}
	best, second := 0, -1
	for i := 1; i < len(s.feasible); i++ {
		switch {
		case better(i, best):
			best, second = i, best
		case second < 0 || better(i, second):
			second = i
		}
	}
	d := Decision{
		Node:     s.feasible[best].Name,
		Total:    s.totals[best],
		Points:   s.points(profile.Scores, best),
		Nodes:    c.Snapshot.Len(),
		Feasible: len(s.feasible),
		Rejected: s.tally.counts(),
	}
	for _, total := range s.totals {
		if total == d.Total {
			d.Ties++
		}
	}
	if second >= 0 {
		d.RunnerUp, d.Margin = s.feasible[second].Name, d.Total-s.totals[second]
	}
	return d
}

// scale brings values to 0..MaxPoints in proportion to the highest; reversed, the lowest value is best.
func scale(values []int64, reversed bool) {
	highest := int64(0)
	for _, v := range values {
		highest = max(highest, v)
	}
	for i := range values {
		points := int64(0)
		if highest > 0 {
			points = MaxPoints * values[i] / highest
		}
		if reversed {
			points = MaxPoints - points
		}
		values[i] = points
	}
}
