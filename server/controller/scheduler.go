package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"edgepod/sched"
)

// The scheduler's limits: how many bindings are written at once, and how often pods that wait long are looked at again.
const (
	bindingsAtOnce = 64
	wakePeriod     = 30 * time.Second
)

// Scheduler gives each pod without a node the node that package sched decides on. One goroutine decides, so that no two
// decisions can take the same room; bindings are written beside it, and so is, apart from them, what users are told.
type Scheduler struct {
	config  Config
	log     *slog.Logger
	reports *reporter
	cache   sched.Cache
	decider sched.Scheduler
	profile sched.Profile
	pending *pending
	// told come from the two watches, outcomes from the bindings.
	told     chan told
	outcomes chan outcome
	slots    chan struct{}
	unsynced map[string]bool
}

// told is what one watch tells: changes, or none when it has told the present state.
type told struct {
	resource string
	changes  []change
}

// outcome of a binding.
type outcome struct {
	entry *pendingPod
	pod   *corev1.Pod
	node  string
	err   error
}

// NewScheduler returns the loop.
func NewScheduler(config Config) *Scheduler {
	log := config.logger("scheduler")
	return &Scheduler{
		config: config, log: log, reports: newReporter(config.Verbs, log),
		profile: sched.DefaultProfile(), pending: newPending(),
		told: make(chan told, 16), outcomes: make(chan outcome, bindingsAtOnce),
		slots:    make(chan struct{}, bindingsAtOnce),
		unsynced: map[string]bool{"nodes": true, "pods": true},
	}
}

// Run implements Loop.
func (s *Scheduler) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, resource := range []string{"nodes", "pods"} {
		wait.Go(func() {
			follow(ctx, s.config, s.log, "", resource, func(changes []change) {
				select {
				case s.told <- told{resource: resource, changes: changes}:
				case <-ctx.Done():
				}
			})
		})
	}
	wait.Go(func() { s.reports.run(ctx) })
	tick := time.NewTicker(wakePeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.absorb(time.Now())
		if len(s.unsynced) == 0 && s.step(ctx, &wait) {
			continue
		}
		s.wait(ctx, tick.C)
	}
	return nil
}

// absorb takes in what has been told, without waiting.
func (s *Scheduler) absorb(now time.Time) {
	for {
		select {
		case told := <-s.told:
			s.take(told, now)
		case done := <-s.outcomes:
			s.conclude(done, now)
		default:
			return
		}
	}
}

// wait returns when something has been told or a pod's back-off is over.
func (s *Scheduler) wait(ctx context.Context, tick <-chan time.Time) {
	now := time.Now()
	var timer <-chan time.Time
	if next := s.pending.next(now); !next.IsZero() && len(s.unsynced) == 0 {
		timer = time.After(next.Sub(now))
	}
	select {
	case <-ctx.Done():
	case <-timer:
	case <-tick:
		s.pending.wakeOld(time.Now())
	case told := <-s.told:
		s.take(told, time.Now())
	case done := <-s.outcomes:
		s.conclude(done, time.Now())
	}
}

func (s *Scheduler) take(told told, now time.Time) {
	if told.changes == nil {
		delete(s.unsynced, told.resource)
		return
	}
	var helps hint
	for _, c := range told.changes {
		if told.resource == "nodes" {
			helps |= s.takeNode(typed[corev1.Node](c))
			continue
		}
		before, after := typed[corev1.Pod](c)
		helps |= s.takePod(before, after, now)
	}
	s.pending.wake(helps, now)
}

// takeNode returns what the change may help.
func (s *Scheduler) takeNode(before, after *corev1.Node) hint {
	if after == nil {
		s.cache.RemoveNode(before.Name)
		return 0
	}
	s.cache.SetNode(after)
	return nodeHints(before, after)
}

// takePod returns what the change may help: other pods, where this one leaves room.
func (s *Scheduler) takePod(before, after *corev1.Pod, now time.Time) hint {
	if after == nil {
		holds := before.Spec.NodeName != "" && !ended(before) || s.pending.decided(before)
		s.drop(before)
		s.cache.RemovePod(before)
		if holds {
			return podGone
		}
		return 0
	}
	s.cache.AddPod(after)
	if waits(after) {
		s.pending.set(after, now)
		return 0
	}
	s.drop(after)
	if before != nil && ended(after) && !ended(before) {
		return podGone
	}
	return 0
}

// drop forgets a pod that waits no more.
func (s *Scheduler) drop(pod *corev1.Pod) {
	s.pending.remove(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	s.reports.forget(pod.UID)
}

// waits tells whether it is for this scheduler to find a node for the pod.
func waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !ended(pod) && len(pod.Spec.SchedulingGates) == 0 &&
		(pod.Spec.SchedulerName == corev1.DefaultSchedulerName || pod.Spec.SchedulerName == "")
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// step decides on one pod and tells whether there was one.
func (s *Scheduler) step(ctx context.Context, wait *sync.WaitGroup) bool {
	now := time.Now()
	entry := s.pending.pop(now)
	if entry == nil {
		return false
	}
	pod := entry.pod
	s.profile.Seed++
	decision, err := s.decider.Schedule(pod, s.cache.Snapshot(), s.profile)
	if err != nil {
		if unfit := (*sched.FitError)(nil); errors.As(err, &unfit) {
			s.pending.failed(entry, helpers(unfit.Filters), now)
		} else {
			s.pending.retry(entry, now)
		}
		s.reports.rejected(pod, err, now)
		return true
	}
	s.cache.Assume(pod, decision.Node)
	s.bind(ctx, wait, outcome{entry: entry, pod: pod, node: decision.Node})
	return true
}

// bind writes the binding beside the loop. It waits where too many are under way.
func (s *Scheduler) bind(ctx context.Context, wait *sync.WaitGroup, o outcome) {
	for {
		select {
		case s.slots <- struct{}{}:
			wait.Go(func() {
				defer func() { <-s.slots }()
				o.err = s.config.Verbs.Bind(ctx, o.pod.Namespace, o.pod.Name, o.pod.UID, o.node)
				if o.err == nil {
					s.reports.scheduled(o.pod, o.node, time.Now())
				}
				select {
				case s.outcomes <- o:
				case <-ctx.Done():
				}
			})
			return
		case done := <-s.outcomes:
			// Bindings that end must find room for what they tell, or no slot would come free.
			s.conclude(done, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// conclude lets go of a binding that did not come about, and of the room that it held. One that did is confirmed by the
// watch. If the pod is gone or has changed, the watch tells that too.
func (s *Scheduler) conclude(done outcome, now time.Time) {
	if done.err == nil {
		return
	}
	if !apierrors.IsNotFound(done.err) && !apierrors.IsConflict(done.err) {
		s.log.Warn("bind", "pod", done.pod.Namespace+"/"+done.pod.Name, "node", done.node, "err", done.err)
	}
	s.cache.Forget(done.pod)
	s.pending.retry(done.entry, now)
	s.pending.wake(podGone, now)
}
