package history

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/projections"
)

// Kinds of objects.
const (
	KindCluster       = "cluster"
	KindBroker        = "broker"
	KindTopic         = "topic"
	KindPartition     = "partition"
	KindConfig        = "config"
	KindDeletedTopic  = "deleted_topic"
	KindShard         = "shard"
	KindProducerFence = "producer_fence"
	KindACL           = "acl"
	KindUser          = "user"
	KindQuota         = "quota"
)

// clusterParts are the parts of the cluster's state. A new kind of object is a new rank here.
func clusterParts(c *projections.Cluster, _ Namer) []part {
	var out []part
	add := func(rank int, key string, id, value any, expand func(any, Namer) []Object) {
		out = append(out, part{rank, key, id, value, expand})
	}
	add(0, "", nil, c, clusterObject)
	for _, b := range c.Brokers() {
		add(1, number(int64(b.ID)), nil, b, brokerObject)
	}
	add(2, "", nil, c, configObjects)
	for _, t := range c.Topics() {
		add(3, t.Name, t, t, topicObjects)
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.Removing()), compareIDs) {
		name := c.Removing()[id]
		add(4, id.String(), name, Object{KindDeletedTopic, id.String(), name, []Field{{"name", name}}}, itself)
	}
	for _, kind := range []projections.ShardKind{projections.ShardGroups, projections.ShardTxns} {
		for i, p := range c.Shards(kind) {
			name := fmt.Sprintf("%s/%02d", kind, i)
			add(5, string(kind)+number(int64(i)), p, Object{KindShard, name, "", owned("owner", "epoch", p)}, itself)
		}
	}
	for f := range c.ProducerFences() {
		add(6, number(f.ProducerID), f, f, fenceObject)
	}
	for _, a := range c.ACLs().All() {
		add(8, a.String(), a, a, aclObject)
	}
	for _, s := range c.ScramCredentials() {
		add(7, s.User+"\x00"+s.Mechanism.String(), s, s, userObject)
	}
	for _, e := range c.Quotas().Entities() {
		add(9, e.String(), nil, quotaObject(e, c.Quotas().Of(e)), itself)
	}
	return out
}

// PartitionName is what a partition is called.
func PartitionName(topic string, index int) string { return topic + "/" + strconv.Itoa(index) }

// BrokerName is what a broker is called.
func BrokerName(id int32) string { return strconv.Itoa(int(id)) }

func compareIDs(a, b projections.TopicID) int { return bytes.Compare(a[:], b[:]) }

// number orders as the number does.
func number(n int64) string { return fmt.Sprintf("%020d", n) }

func itself(v any, _ Namer) []Object { return []Object{v.(Object)} }

func clusterObject(v any, _ Namer) []Object {
	c := v.(*projections.Cluster)
	return []Object{{KindCluster, "", "", []Field{{"controller", c.Controller()}, {"next_producer_id", c.NextProducerID()}}}}
}

func brokerObject(v any, _ Namer) []Object {
	b := v.(projections.Broker)
	fs := []Field{{"epoch", b.Epoch}, {"fenced", b.Fenced}, {"incarnation", b.Incarnation}, {"session", b.Session}, {"host", b.Host}}
	if b.Rack != "" {
		fs = append(fs, Field{"rack", b.Rack})
	}
	for _, l := range b.Listeners {
		fs = append(fs, Field{"listener " + l.Name, fmt.Sprintf("%s:%d", l.Host, l.Port)})
	}
	return []Object{{KindBroker, BrokerName(b.ID), "", fs}}
}

// configObjects are the configurations of brokers, groups and client metrics; topics have theirs.
func configObjects(v any, _ Namer) (out []Object) {
	c := v.(*projections.Cluster)
	out = AppendConfig(out, "broker default", "", c.BrokerConfigs(""))
	for _, b := range c.Brokers() {
		id := BrokerName(b.ID)
		out = AppendConfig(out, "broker "+id, id, c.BrokerConfigs(id))
	}
	for _, g := range c.ConfiguredGroups() {
		out = AppendConfig(out, "group "+g, g, c.GroupConfig(g))
	}
	for _, name := range c.ClientMetricsNames() {
		out = AppendConfig(out, "client metrics "+name, name, c.ClientMetrics(name))
	}
	return out
}

// AppendConfig appends what was set, if anything was.
func AppendConfig(out []Object, name, of string, m map[string]string) []Object {
	if len(m) == 0 {
		return out
	}
	o := Object{Kind: KindConfig, Name: name, Of: of}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		o.Fields = append(o.Fields, Field{k, m[k]})
	}
	return append(out, o)
}

func topicObjects(v any, _ Namer) []Object {
	t := v.(*projections.Topic)
	out := []Object{{KindTopic, t.Name, t.Name, []Field{{"id", t.ID.String()}, {"partitions", len(t.Partitions)}, {"created", moment(t.CreatedAt)}}}}
	out = AppendConfig(out, "topic "+t.Name, t.Name, t.Configs)
	for i, p := range t.Partitions {
		out = append(out, Object{KindPartition, PartitionName(t.Name, i), t.Name, owned("leader", "leader_epoch", p)})
	}
	return out
}

func owned(who, epoch string, p projections.Partition) []Field {
	fs := []Field{{who, p.Leader}, {epoch, p.Epoch}}
	if p.Handover {
		fs = append(fs, Field{"handover", true})
	}
	return fs
}

func fenceObject(v any, _ Namer) []Object {
	f := v.(projections.ProducerFence)
	return []Object{{KindProducerFence, strconv.FormatInt(f.ProducerID, 10), "", []Field{{"epoch", f.Epoch}, {"raised", millis(f.Time)}}}}
}

// aclObject is an ACL, which has nothing that could change: another is another one.
func aclObject(v any, _ Namer) []Object {
	a := v.(projections.ACL)
	of := ""
	if a.Resource == projections.ACLTopic && a.Pattern == projections.ACLLiteral {
		of = a.Name
	}
	return []Object{{KindACL, a.String(), of, []Field{{"permission", a.Permission.String()}}}}
}

// userObject is a credential of a user's. What it is made of is nobody's to see.
func userObject(v any, _ Namer) []Object {
	s := v.(*projections.ScramCredential)
	return []Object{{KindUser, s.User + "/" + s.Mechanism.String(), s.User, []Field{{"iterations", s.Iterations}, {"set", moment(s.SetAt)}}}}
}

func quotaObject(e projections.QuotaEntity, set projections.QuotaValues) Object {
	o := Object{Kind: KindQuota, Name: e.String()}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		o.Fields = append(o.Fields, Field{k, projections.QuotaValue(set[k])})
	}
	return o
}

// moment is a time as a value.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func millis(ms int64) string { return moment(time.UnixMilli(ms)) }

// Runs is a list of numbers, runs of them shortened: 0-3,7.
func Runs(ns []int32) string {
	var out []string
	for i := 0; i < len(ns); {
		j := i + 1
		for j < len(ns) && ns[j] == ns[j-1]+1 {
			j++
		}
		if j-i > 2 {
			out = append(out, fmt.Sprintf("%d-%d", ns[i], ns[j-1]))
		} else {
			for _, n := range ns[i:j] {
				out = append(out, strconv.Itoa(int(n)))
			}
		}
		i = j
	}
	return strings.Join(out, ",")
}
