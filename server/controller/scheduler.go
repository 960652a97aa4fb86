package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"edgepod/sched"
	"edgepod/server/registry"
)

// The scheduler's limits: how many bindings are written at once, and how often pods that wait long are looked at again.
const (
	bindingsAtOnce = 64
	wakePeriod     = 30 * time.Second
)

// Scheduler gives each pod without a node the node that package sched decides on. One goroutine decides, so that no two
// decisions can take the same room; the bindings are written beside it.
type Scheduler struct {
	config  Config
	log     *slog.Logger
	events  *recorder
	nodes   map[string]*corev1.Node
	cache   sched.Cache
	decider sched.Scheduler
	profile sched.Profile
	pending *pending
	// changes come from the two watches, outcomes from the bindings.
	changes  chan schedulerChange
	outcomes chan outcome
	slots    chan struct{}
	unsynced map[string]bool
}

// schedulerChange is what one watch tells: events, or none when it has told the present state.
type schedulerChange struct {
	resource string
	events   []registry.Event
}

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
		config: config, log: log,
		events:  newRecorder(config.Verbs, log, corev1.DefaultSchedulerName),
		nodes:   map[string]*corev1.Node{},
		profile: sched.DefaultProfile(), pending: newPending(),
		changes: make(chan schedulerChange, 16), outcomes: make(chan outcome, bindingsAtOnce),
		slots:    make(chan struct{}, bindingsAtOnce),
		unsynced: map[string]bool{"nodes": true, "pods": true},
	}
}

// Run implements Loop.
func (s *Scheduler) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	for resource := range s.unsynced {
		wait.Go(func() {
			follow(ctx, s.config, s.log, "", resource, func(events []registry.Event) {
				select {
				case s.changes <- schedulerChange{resource: resource, events: events}:
				case <-ctx.Done():
				}
			})
		})
	}
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
		case change := <-s.changes:
			s.take(change, now)
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
	case change := <-s.changes:
		s.take(change, time.Now())
	case done := <-s.outcomes:
		s.conclude(done, time.Now())
	}
}

func (s *Scheduler) take(change schedulerChange, now time.Time) {
	if change.events == nil {
		delete(s.unsynced, change.resource)
		return
	}
	helps := false
	for _, event := range change.events {
		deleted := event.Type == string(watch.Deleted)
		switch object := event.Object.Runtime().(type) {
		case *corev1.Node:
			helps = s.takeNode(object, deleted) || helps
		case *corev1.Pod:
			helps = s.takePod(object, deleted, now) || helps
		}
	}
	if helps {
		s.pending.wake(now)
	}
}

// takeNode tells whether the change may let a pod fit that did not.
func (s *Scheduler) takeNode(node *corev1.Node, deleted bool) bool {
	if deleted {
		delete(s.nodes, node.Name)
		s.cache.RemoveNode(node.Name)
		return false
	}
	old := s.nodes[node.Name]
	s.nodes[node.Name] = node
	s.cache.SetNode(node)
	return old == nil || old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!apiequality.Semantic.DeepEqual(old.Labels, node.Labels) ||
		!apiequality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!apiequality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable)
}

// takePod tells whether the change may let another pod fit that did not.
func (s *Scheduler) takePod(pod *corev1.Pod, deleted bool, now time.Time) bool {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if deleted {
		s.pending.remove(key)
		s.cache.RemovePod(pod)
		return pod.Spec.NodeName != ""
	}
	s.cache.AddPod(pod)
	if waits(pod) {
		s.pending.set(pod, now)
		return false
	}
	s.pending.remove(key)
	return ended(pod)
}

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
		s.pending.failed(entry, now)
		s.act(ctx, wait, func() { s.reject(ctx, pod, err, now) })
		return true
	}
	s.cache.Assume(pod, decision.Node)
	s.act(ctx, wait, func() {
		err := s.config.Verbs.Bind(ctx, pod.Namespace, pod.Name, pod.UID, decision.Node)
		select {
		case s.outcomes <- outcome{entry: entry, pod: pod, node: decision.Node, err: err}:
		case <-ctx.Done():
		}
		if err == nil {
			message := fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, decision.Node)
			s.events.record(ctx, pod, corev1.EventTypeNormal, "Scheduled", message, now)
		}
	})
	return true
}

// act does the work beside the loop, of which only so much is under way at once.
func (s *Scheduler) act(ctx context.Context, wait *sync.WaitGroup, work func()) {
	for {
		select {
		case s.slots <- struct{}{}:
			wait.Go(func() {
				defer func() { <-s.slots }()
				work()
			})
			return
		case done := <-s.outcomes:
			// Workers that end must find room for what they tell, or no slot would come free.
			s.conclude(done, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// conclude lets go of a binding that did not come about. One that did is confirmed by the watch.
func (s *Scheduler) conclude(done outcome, now time.Time) {
	if done.err == nil {
		return
	}
	s.cache.Forget(done.pod)
	if apierrors.IsNotFound(done.err) || apierrors.IsConflict(done.err) {
		// The pod is gone or changed; the watch tells what became of it.
		s.pending.retry(done.entry, now)
		return
	}
	s.log.Warn("bind", "pod", done.pod.Namespace+"/"+done.pod.Name, "node", done.node, "err", done.err)
	s.pending.retry(done.entry, now)
	s.pending.wake(now)
}

// reject says in the pod's conditions and in an Event why no node takes it.
func (s *Scheduler) reject(ctx context.Context, pod *corev1.Pod, why error, now time.Time) {
	reason := corev1.PodReasonSchedulerError
	var unfit *sched.FitError
	if errors.As(why, &unfit) {
		reason = corev1.PodReasonUnschedulable
	}
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: why.Error(),
		ObservedGeneration: pod.Generation,
	}
	uid := pod.UID
	_, err := s.config.Verbs.Update(ctx, s.config.Verbs.Resource("", "pods"), registry.UpdateRequest{
		Namespace: pod.Namespace, Name: pod.Name, Subresource: "status",
		Preconditions: &metav1.Preconditions{UID: &uid},
		Modify: func(live runtime.Object) (runtime.Object, error) {
			setPodCondition(live.(*corev1.Pod), condition, now)
			return live, nil
		},
	})
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		s.log.Warn("write condition", "pod", pod.Namespace+"/"+pod.Name, "err", err)
	}
	s.events.record(ctx, pod, corev1.EventTypeWarning, "FailedScheduling", why.Error(), now)
}

// setPodCondition puts the condition in place of the one of its type. The time of its last transition changes with its
// status alone.
func setPodCondition(pod *corev1.Pod, condition corev1.PodCondition, now time.Time) {
	condition.LastTransitionTime = metav1.NewTime(now)
	for i, old := range pod.Status.Conditions {
		if old.Type != condition.Type {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		pod.Status.Conditions[i] = condition
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}
