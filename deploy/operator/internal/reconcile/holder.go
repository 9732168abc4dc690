package reconcile

import (
	"errors"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resource is a KafkaTopic or a KafkaUser.
type resource interface {
	client.Object
	Kind() string
	KafkaName() string
	Conditions() *[]metav1.Condition
	Observe()
	Held() bool
	Hold()
	CopyTo(any)
}

// holders remembers which resource holds a name, for what others show of it may be old.
type holders struct {
	mu struct {
		sync.Mutex
		by map[string]types.UID
		// left are resources whose finalizer is off. What the cache still shows of them is old.
		left map[types.NamespacedName]types.UID
	}
}

// choose says which of the resources for a name holds it.
func (h *holders) choose(name string, all []resource) resource {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.IndexFunc(all, func(r resource) bool { return r.GetUID() == h.mu.by[name] }); i >= 0 {
		return all[i]
	}
	first := slices.MinFunc(all, earlier)
	if h.mu.by == nil {
		h.mu.by = map[string]types.UID{}
	}
	h.mu.by[name] = first.GetUID()
	return first
}

// leave is for a resource whose finalizer is off.
func (h *holders) leave(obj resource) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.by[obj.KafkaName()] == obj.GetUID() {
		delete(h.mu.by, obj.KafkaName())
	}
	if h.mu.left == nil {
		h.mu.left = map[types.NamespacedName]types.UID{}
	}
	h.mu.left[client.ObjectKeyFromObject(obj)] = obj.GetUID()
}

// hasLeft is whether the finalizer of the resource is off already.
func (h *holders) hasLeft(obj resource) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.left[client.ObjectKeyFromObject(obj)] == obj.GetUID()
}

// gone is for a name that no resource has any more.
func (h *holders) gone(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.left, name)
}

// earlier orders resources by their right to a name.
func earlier(a, b resource) int {
	switch {
	case a.Held() != b.Held() && a.Held():
		return -1
	case a.Held() != b.Held():
		return 1
	}
	if at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp(); !at.Equal(&bt) {
		if at.Before(&bt) {
			return -1
		}
		return 1
	}
	return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
}

// claim is nil if obj holds its name among all that are for it.
func (h *holders) claim(obj resource, others []resource) error {
	all := []resource{obj}
	for _, o := range others {
		if o.GetUID() != obj.GetUID() {
			all = append(all, o)
		}
	}
	if first := h.choose(obj.KafkaName(), all); first.GetUID() != obj.GetUID() {
		return no(ReasonNameTaken, "%s is what %s/%s is for", obj.KafkaName(), first.GetNamespace(), first.GetName())
	}
	return nil
}

// unlessTaken is nil if err says that another resource holds the name.
func unlessTaken(err error) error {
	var v *verdict
	if errors.As(err, &v) && v.reason == ReasonNameTaken {
		return nil
	}
	return err
}
