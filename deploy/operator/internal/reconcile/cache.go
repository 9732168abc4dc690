package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// CacheOptions are those of what is remembered of the resources of namespaces, all if there are
// none: nothing of a password. Secrets are watched for what they are called alone.
func CacheOptions(namespaces []string) cache.Options {
	o := cache.Options{DefaultTransform: named}
	if len(namespaces) > 0 {
		o.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range namespaces {
			o.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return o
}

// named leaves of metadata what says which object it is of. An annotation may have the object as
// somebody has applied it, with all that is in it.
func named(obj any) (any, error) {
	if m, is := obj.(*metav1.PartialObjectMetadata); is {
		m.Annotations, m.ManagedFields = nil, nil
	}
	return obj, nil
}
