package reconcile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// aclsOf are the ACLs that a resource lists, one for each operation.
func aclsOf(spec *v1alpha1.KafkaUserSpec) ([]kafka.ACL, error) {
	var out []kafka.ACL
	for i := range spec.ACLs {
		in := &spec.ACLs[i]
		a := kafka.ACL{Name: in.Resource.Name, Host: in.Host}
		var err error
		if a.Resource, err = kmsg.ParseACLResourceType(string(in.Resource.Type)); err != nil {
			return nil, err
		}
		if in.Resource.Type == v1alpha1.Cluster {
			a.Name = "kafka-cluster"
		}
		if a.Pattern = kmsg.ACLResourcePatternTypeLiteral; in.Resource.PatternType == v1alpha1.Prefixed {
			a.Pattern = kmsg.ACLResourcePatternTypePrefixed
		}
		if a.Permission = kmsg.ACLPermissionTypeAllow; in.Permission == v1alpha1.Deny {
			a.Permission = kmsg.ACLPermissionTypeDeny
		}
		for _, op := range in.Operations {
			if a.Operation, err = kmsg.ParseACLOperation(string(op)); err != nil {
				return nil, err
			}
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// differ is what is in want and not in have, and the other way round.
func differ(want, have []kafka.ACL) (missing, extra []kafka.ACL) {
	only := func(a, b []kafka.ACL) (out []kafka.ACL) {
		in := map[kafka.ACL]bool{}
		for _, x := range b {
			in[x] = true
		}
		for _, x := range a {
			if !in[x] {
				out = append(out, x)
			}
		}
		return out
	}
	return only(want, have), only(have, want)
}

// quotasOf are the quotas that a resource lists, by Kafka's names.
func quotasOf(q *v1alpha1.Quotas) map[string]float64 {
	out := map[string]float64{}
	if q == nil {
		return out
	}
	for name, v := range map[string]*int64{"producer_byte_rate": q.ProducerByteRate, "consumer_byte_rate": q.ConsumerByteRate} {
		if v != nil {
			out[name] = float64(*v)
		}
	}
	for name, v := range map[string]*int32{"request_percentage": q.RequestPercentage, "controller_mutation_rate": q.ControllerMutationRate} {
		if v != nil {
			out[name] = float64(*v)
		}
	}
	return out
}

// planQuotas is what is to be set and to be taken away.
func planQuotas(want, have map[string]float64) (set map[string]float64, remove []string) {
	set = map[string]float64{}
	for k, v := range want {
		if now, is := have[k]; !is || now != v {
			set[k] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(have)) {
		if _, wanted := want[k]; !wanted {
			remove = append(remove, k)
		}
	}
	return set, remove
}

// checkPassword refuses what no client can send, or is most likely a slip.
func checkPassword(p []byte) error {
	if len(p) == 0 {
		return fmt.Errorf("is empty")
	}
	for _, c := range p {
		if c < ' ' || c == 0x7F {
			return fmt.Errorf("has a control character, perhaps the end of a line")
		}
	}
	return nil
}
