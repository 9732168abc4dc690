package history

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// Place is where some of an object is kept: a stream, which of its events are about it, and
// which objects of its states are it or its parts.
type Place struct {
	Stream *Stream
	Filter Filter
	is     func(kind, name, of string) bool
	// also tells, where is does not, by the object's fields.
	also func(Object) bool
}

// Kinds are the kinds of things that Places knows.
var Kinds = []string{"topic", "partition", "broker", "group", "txn", "producer", "shard", "user"}

// Places are where a thing is kept. It need not be there now. What has one name after the
// other, such as a topic that was made again, is one thing.
func Places(ctx context.Context, v *substrate.Volume, kind, name string) ([]Place, error) {
	cluster := Place{Stream: Cluster(v)}
	switch kind {
	case "topic":
		cluster.Filter.Topic = name
		cluster.is = func(k, n, of string) bool { return of == name && (k != KindConfig || n == "topic "+name) }
	case "partition":
		topic, _, ok := cutLast(name, "/")
		if !ok {
			return nil, badText("partition %q: must be TOPIC/NUMBER", name)
		}
		cluster.Filter.Topic = topic
		cluster.is = func(k, n, _ string) bool { return k == KindPartition && n == name }
	case "broker":
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return nil, badText("broker %q is not a number", name)
		}
		n := int32(id)
		cluster.Filter.Broker = &n
		cluster.is = func(k, n, _ string) bool {
			return k == KindBroker && n == name || k == KindConfig && n == "broker "+name
		}
	case "shard":
		cluster.Filter.Types = []string{new(projections.ShardOwnerChanged).EventName(), new(projections.ShardsMade).EventName()}
		cluster.is = func(k, n, _ string) bool { return k == KindShard && n == name }
	case "user":
		cluster.Filter.User = name
		cluster.is = func(k, _, of string) bool { return k == KindUser && of == name }
	case "group":
		cluster.Filter.Group = name
		cluster.is = func(k, n, _ string) bool { return k == KindConfig && n == "group "+name }
		return withShard(ctx, v, cluster, GroupShards, Place{Filter: Filter{Group: name}, is: func(_, _, of string) bool { return of == name }}, name)
	case "txn":
		_, s, err := TxnShards.ShardOf(ctx, v, name)
		return []Place{{Stream: s, Filter: Filter{Txn: name}, is: func(_, n, _ string) bool { return n == name }}}, err
	case "producer":
		return producerPlaces(v, cluster, name)
	default:
		return nil, badText("%q is none of %s", kind, strings.Join(Kinds, ", "))
	}
	return []Place{cluster}, nil
}

func withShard(ctx context.Context, v *substrate.Volume, cluster Place, k *ShardKind, p Place, name string) (_ []Place, err error) {
	_, p.Stream, err = k.ShardOf(ctx, v, name)
	return []Place{cluster, p}, err
}

// producerPlaces are the cluster's stream, which has the fences, and all of transactional IDs,
// any of which may have had the producer.
func producerPlaces(v *substrate.Volume, cluster Place, name string) ([]Place, error) {
	id, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		return nil, badText("producer %q is not a number", name)
	}
	cluster.Filter.Producer = &id
	cluster.is = func(k, n, _ string) bool { return k == KindProducerFence && n == name }
	shards, err := TxnShards.List(v)
	if err != nil {
		return nil, err
	}
	out := []Place{cluster}
	for _, n := range shards {
		out = append(out, Place{Stream: TxnShards.Stream(v, n), Filter: Filter{Producer: &id}, also: func(o Object) bool {
			return slices.Contains(o.Fields, Field{"producer_id", id})
		}})
	}
	return out, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Objects are the thing and its parts in a state of the place's stream.
func (p Place) Objects(st State) (out []Object) {
	for _, o := range st.Objects() {
		if p.is != nil && p.is(o.Kind, o.Name, o.Of) || p.also != nil && p.also(o) {
			out = append(out, o)
		}
	}
	return out
}

// Changes are those of the thing and its parts in a step.
func (p Place) Changes(st Step) (out []Change) {
	for _, c := range Diff(st.Before, st.After) {
		if p.is != nil && p.is(c.Kind, c.Name, c.Of) || p.also != nil && p.concerns(st, c) {
			out = append(out, c)
		}
	}
	return out
}

// concerns reports whether an event of the step is about what changed.
func (p Place) concerns(st Step, c Change) bool {
	return slices.ContainsFunc(st.Events, func(ev Event) bool {
		return ev.Subject.All || slices.Contains(ev.Subject.Txns, c.Name) && slices.Contains(ev.Subject.Producers, *p.Filter.Producer)
	})
}
