package sched

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// What a container that names no request counts as in NodeResourcesFit's points.
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// Resources are amounts in the scheduler's units: thousandths of a cpu, bytes, pieces.
type Resources struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	// Scalars are extended resources, huge pages and the like, sorted by name. The slice is never changed in place.
	Scalars []Scalar
}

// NonZeroRequests are amounts of cpu and memory in which nobody counts as asking for nothing by not saying so.
type NonZeroRequests struct {
	MilliCPU, Memory int64
}

// Scalar is an amount of a resource that is counted in whole units.
type Scalar struct {
	Name  corev1.ResourceName
	Value int64
}

// Scalar is the amount of the named resource, 0 if there is none.
func (r *Resources) Scalar(name corev1.ResourceName) int64 {
	for i := range r.Scalars {
		if r.Scalars[i].Name == name {
			return r.Scalars[i].Value
		}
	}
	return 0
}

// add adds sign times the other amounts.
func (r *Resources) add(other *Resources, sign int64) {
	r.MilliCPU += sign * other.MilliCPU
	r.Memory += sign * other.Memory
	r.EphemeralStorage += sign * other.EphemeralStorage
	if len(other.Scalars) == 0 {
		return
	}
	sum := slices.Clone(r.Scalars)
	for _, scalar := range other.Scalars {
		i, found := slices.BinarySearchFunc(sum, scalar.Name, compareScalar)
		if found {
			sum[i].Value += sign * scalar.Value
			continue
		}
		sum = slices.Insert(sum, i, Scalar{Name: scalar.Name, Value: sign * scalar.Value})
	}
	r.Scalars = sum
}

func compareScalar(s Scalar, name corev1.ResourceName) int {
	return strings.Compare(string(s.Name), string(name))
}

// newResources converts a list of the API; names that the scheduler doesn't count are left out.
func newResources(list corev1.ResourceList) Resources {
	var r Resources
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = quantity.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = quantity.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = quantity.Value()
		case corev1.ResourcePods:
		default:
			if isScalar(name) {
				r.Scalars = append(r.Scalars, Scalar{Name: name, Value: quantity.Value()})
			}
		}
	}
	slices.SortFunc(r.Scalars, func(a, b Scalar) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return r
}

// isScalar tells whether a resource is one that nodes count in whole units.
func isScalar(name corev1.ResourceName) bool {
	s := string(name)
	switch {
	case strings.HasPrefix(s, corev1.ResourceHugePagesPrefix),
		strings.HasPrefix(s, corev1.ResourceAttachableVolumesPrefix),
		strings.Contains(s, corev1.ResourceDefaultNamespacePrefix):
		return true
	case !strings.Contains(s, "/"), strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix):
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+s)) == 0
}

// amount is an exact quantity of one resource while a pod's requests are summed.
type amount struct {
	name corev1.ResourceName
	q    resource.Quantity
}

// amounts is a small map; pods name one to four resources.
type amounts []amount

func (a amounts) find(name corev1.ResourceName) int {
	return slices.IndexFunc(a, func(x amount) bool { return x.name == name })
}

func (a *amounts) add(name corev1.ResourceName, q resource.Quantity) {
	if i := a.find(name); i >= 0 {
		(*a)[i].q.Add(q)
		return
	}
	*a = append(*a, amount{name, q.DeepCopy()})
}

func (a *amounts) addAll(others amounts) {
	for i := range others {
		a.add(others[i].name, others[i].q)
	}
}

func (a *amounts) addList(list corev1.ResourceList) {
	for name, q := range list {
		a.add(name, q)
	}
}

// raise lifts every amount to at least the other's.
func (a *amounts) raise(others amounts) {
	for i := range others {
		j := a.find(others[i].name)
		switch {
		case j < 0:
			*a = append(*a, amount{others[i].name, others[i].q.DeepCopy()})
		case others[i].q.Cmp((*a)[j].q) > 0:
			(*a)[j].q = others[i].q.DeepCopy()
		}
	}
}

func (a *amounts) set(name corev1.ResourceName, q resource.Quantity) {
	if i := a.find(name); i >= 0 {
		(*a)[i].q = q.DeepCopy()
		return
	}
	*a = append(*a, amount{name, q.DeepCopy()})
}

// fill adds what a container that names no cpu or memory counts as.
func (a *amounts) fill(rules requestRules) {
	if rules.fillCPU && a.find(corev1.ResourceCPU) < 0 {
		a.add(corev1.ResourceCPU, *resource.NewMilliQuantity(defaultMilliCPU, resource.DecimalSI))
	}
	if rules.fillMemory && a.find(corev1.ResourceMemory) < 0 {
		a.add(corev1.ResourceMemory, *resource.NewQuantity(defaultMemory, resource.BinarySI))
	}
}

func (a amounts) nonZero() NonZeroRequests {
	r := a.resources()
	return NonZeroRequests{r.MilliCPU, r.Memory}
}

func (a amounts) resources() Resources {
	var r Resources
	for i := range a {
		switch a[i].name {
		case corev1.ResourceCPU:
			r.MilliCPU = a[i].q.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = a[i].q.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = a[i].q.Value()
		default:
			if isScalar(a[i].name) {
				r.Scalars = append(r.Scalars, Scalar{a[i].name, a[i].q.Value()})
			}
		}
	}
	slices.SortFunc(r.Scalars, func(a, b Scalar) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return r
}
