package projections

import (
	"fmt"
	"maps"
	"slices"
)

// Restoration is what comes of restoring an earlier view over the one there is, with what is
// to be said of it, in lines for people.
type Restoration struct {
	View     *Cluster
	Since    []*Topic // topics made since: they stay
	Restored []string // what is as it was then
	Raised   []string // what is above what it was then
	LeftOut  []string // what was there then and does not come back
}

// Restore is the view now with what an earlier one, then, says. Whatever only rises is the
// higher of the two: leader epochs, shards' epochs, registrations, producer IDs and fences;
// a topic has no fewer partitions. Who leads what, which brokers there are and which topics
// are being removed is as it is now, for that is not a wish but how things are. What
// there is now and was not then stays.
//
// files is how many partitions of a topic, from 0 on, have files on the volume. A topic whose
// files are gone, or going, does not come back.
//
// To restore the same over the result changes nothing.
func Restore(then, now *Cluster, files func(TopicID) int32) *Restoration {
	r := &restoring{Restoration: Restoration{View: NewCluster()}, then: then, now: now, files: files}
	c := r.View
	c.controller, c.removing = now.controller, maps.Clone(now.removing)
	c.brokerEpoch = max(then.brokerEpoch, now.brokerEpoch)
	if c.scramSecret = now.scramSecret; len(c.scramSecret) == 0 {
		c.scramSecret = then.scramSecret
	}
	for _, step := range []func(){r.brokers, r.topics, r.topicsBack, r.shards, r.configs, r.acls, r.credentials, r.quotas, r.producers} {
		step()
	}
	r.View = c.seal()
	return &r.Restoration
}

type restoring struct {
	Restoration
	then, now *Cluster
	files     func(TopicID) int32
}

func say(to *[]string, format string, a ...any) { *to = append(*to, fmt.Sprintf(format, a...)) }

// brokers keeps every registration there is. One that was unregistered since stays so, and
// one that this volume has never heard of comes as fenced: whoever it is registers again.
func (r *restoring) brokers() {
	for _, old := range r.then.Brokers() {
		b, ok := r.now.brokers[old.ID]
		switch {
		case ok && b.Epoch > old.Epoch:
			say(&r.Raised, "broker %d stays registered with epoch %d, then %d", b.ID, b.Epoch, old.Epoch)
		case ok: // the process that is registered goes on
			b.Epoch = old.Epoch
			r.View.brokers[b.ID] = b
		case old.Epoch <= r.now.brokerEpoch:
			say(&r.LeftOut, "broker %d: it was unregistered since", old.ID)
		default:
			old.Fenced = true
			r.View.brokers[old.ID] = old
			say(&r.Restored, "broker %d is registered with epoch %d, fenced", old.ID, old.Epoch)
		}
	}
	for id, b := range r.now.brokers {
		if _, ok := r.View.brokers[id]; !ok {
			r.View.brokers[id] = b
		}
	}
}

// leader is who leads what somebody led then and nobody does now: the same, or anybody alive.
func (r *restoring) leader(then int32) int32 {
	for _, b := range r.View.Brokers() {
		if then == b.ID && !b.Fenced {
			return then
		}
	}
	for _, b := range r.View.Brokers() {
		if !b.Fenced {
			return b.ID
		}
	}
	return NoLeader
}

// topics keeps those of now, as they were configured then.
func (r *restoring) topics() {
	raised := raises{what: "leader epoch(s)"}
	for _, t := range r.now.Topics() {
		old := r.then.topics[t.ID]
		t = t.clone()
		r.View.topics[t.ID], r.View.names[t.Name] = t, t
		if old == nil {
			r.Since = append(r.Since, t)
			continue
		}
		if !maps.Equal(old.Configs, t.Configs) {
			say(&r.Restored, "topic %s%s", t.Name, differences(t.Configs, old.Configs))
			t.Configs = old.Configs
		}
		r.grow(t, old)
		if n := len(old.Partitions); len(t.Partitions) > n {
			say(&r.Raised, "topic %s keeps its %d partitions, then %d", t.Name, len(t.Partitions), n)
		}
		for i := range min(len(t.Partitions), len(old.Partitions)) {
			raised.higher(&t.Partitions[i], old.Partitions[i], fmt.Sprintf("%s-%d", t.Name, i))
		}
	}
	raised.say(&r.Raised)
}

// grow gives a topic the partitions that it had then, as far as they have files.
func (r *restoring) grow(t, old *Topic) {
	n := len(t.Partitions)
	if len(old.Partitions) <= n {
		return
	}
	to := min(len(old.Partitions), int(r.files(t.ID)))
	for i := n; i < to; i++ {
		t.Partitions = append(t.Partitions, r.again(old.Partitions[i]))
	}
	if to > n {
		say(&r.Restored, "topic %s has %d partitions again, now %d", t.Name, to, n)
	}
	if to < len(old.Partitions) {
		say(&r.LeftOut, "partitions %d to %d of topic %s: their files are gone", max(n, to), len(old.Partitions)-1, t.Name)
	}
}

// again is a partition that comes back.
func (r *restoring) again(p Partition) Partition {
	return Partition{Leader: r.leader(p.Leader), Epoch: p.Epoch + 1}
}

// topicsBack brings back what the view has lost and the volume has not.
func (r *restoring) topicsBack() {
	for _, old := range r.then.Topics() {
		if r.View.topics[old.ID] != nil {
			continue
		}
		have := r.files(old.ID)
		_, removing := r.now.removing[old.ID]
		switch {
		case removing:
			say(&r.LeftOut, "topic %s (%s): it was deleted since, and its files are being removed", old.Name, old.ID)
		case have == 0:
			say(&r.LeftOut, "topic %s (%s): its files are gone", old.Name, old.ID)
		case int(have) < len(old.Partitions):
			say(&r.LeftOut, "topic %s (%s): only %d of its %d partitions have files", old.Name, old.ID, have, len(old.Partitions))
		case r.View.names[old.Name] != nil:
			say(&r.LeftOut, "topic %s (%s): its name is that of another topic now, %s", old.Name, old.ID, r.View.names[old.Name].ID)
		default:
			t := old.clone()
			for i, p := range t.Partitions {
				t.Partitions[i] = r.again(p)
			}
			r.View.topics[t.ID], r.View.names[t.Name] = t, t
			say(&r.Restored, "topic %s (%s) with %d partition(s)", t.Name, t.ID, len(t.Partitions))
		}
	}
}

// shards keeps their numbers, for a key stays in its shard, and who owns them.
func (r *restoring) shards() {
	raised := raises{what: "epoch(s) of shards"}
	for _, kind := range slices.Sorted(maps.Keys(r.then.shards)) {
		old := r.then.shards[kind]
		ss := slices.Clone(r.now.shards[kind])
		switch {
		case ss == nil:
			for _, p := range old {
				ss = append(ss, r.again(p))
			}
			say(&r.Restored, "%d shards of %s", len(ss), kind)
		case len(ss) != len(old):
			say(&r.LeftOut, "the number of shards of %s, %d: it is %d", kind, len(old), len(ss))
		default:
			for i := range ss {
				raised.higher(&ss[i], old[i], fmt.Sprintf("%s/%02d", kind, i))
			}
		}
		r.View.shards[kind] = ss
	}
	for kind, ss := range r.now.shards {
		if r.View.shards[kind] == nil {
			r.View.shards[kind] = ss
		}
	}
	raised.say(&r.Raised)
}

func (r *restoring) configs() {
	for _, k := range []struct {
		what      string
		now, then map[string]map[string]string
		to        *map[string]map[string]string
	}{
		{"broker", r.now.brokerConfigs, r.then.brokerConfigs, &r.View.brokerConfigs},
		{"group", r.now.groupConfigs, r.then.groupConfigs, &r.View.groupConfigs},
		{"client metrics", r.now.clientMetrics, r.then.clientMetrics, &r.View.clientMetrics},
	} {
		*k.to = maps.Clone(k.then)
		names := slices.Concat(slices.Collect(maps.Keys(k.now)), slices.Collect(maps.Keys(k.then)))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if d := differences(k.now[name], k.then[name]); d != "" {
				say(&r.Restored, "%s %q%s", k.what, name, d)
			}
		}
	}
}

// quotas are a wish, and come back whole.
func (r *restoring) quotas() {
	r.View.quotas = r.then.quotas
	es := slices.Concat(r.now.quotas.Entities(), r.then.quotas.Entities())
	slices.SortFunc(es, QuotaEntity.compare)
	for _, e := range slices.Compact(es) {
		if set, gone := difference(r.now.quotas.Of(e), r.then.quotas.Of(e)); len(set)+len(gone) > 0 {
			say(&r.Restored, "quotas of %s%s", e, quotaSettings(set, gone))
		}
	}
}

// acls are those of then: what was denied since is allowed again, and the other way round.
func (r *restoring) acls() {
	r.View.acls = r.then.acls
	back, gone := 0, 0
	for _, a := range r.then.acls.all {
		if !r.now.acls.Has(a) {
			back++
		}
	}
	for _, a := range r.now.acls.all {
		if !r.then.acls.Has(a) {
			gone++
		}
	}
	if back+gone > 0 {
		say(&r.Restored, "%d ACL(s) made again and %d made since deleted", back, gone)
	}
}

func (r *restoring) producers() {
	c := r.View
	c.nextProducerID = max(r.then.nextProducerID, r.now.nextProducerID)
	if c.nextProducerID > r.then.nextProducerID {
		say(&r.Raised, "producer IDs go on from %d, then %d", c.nextProducerID, r.then.nextProducerID)
	}
	c.fencesExpired = max(r.then.fencesExpired, r.now.fencesExpired)
	d := newDraft(c)
	d.fences = r.now.fences
	for id, f := range r.then.fences.All {
		(&ProducerFenced{ProducerID: id, Epoch: f.epoch, Time: f.time}).apply(d)
	}
	d.expireProducerFences(c.fencesExpired)
	c.fences = d.fences
	more := 0
	for id, f := range c.fences.All {
		if old, ok := r.then.fences.Get(id); !ok || old.epoch < f.epoch {
			more++
		}
	}
	if more > 0 {
		say(&r.Raised, "%d producer(s) stay fenced below epochs that were not fenced then", more)
	}
}

// raises collects what is above what it was then, to be said in one line.
type raises struct {
	what  string
	n     int
	first string
}

// higher makes p's epoch at least old's. Whoever leads it claims it again, if that raises it.
func (r *raises) higher(p *Partition, old Partition, name string) {
	switch {
	case p.Epoch > old.Epoch:
		if r.n++; r.n == 1 {
			r.first = fmt.Sprintf("%s: %d, then %d", name, p.Epoch, old.Epoch)
		}
	case p.Epoch < old.Epoch:
		p.Epoch, p.Handover = old.Epoch, false
	}
}

func (r *raises) say(to *[]string) {
	if r.n > 0 {
		say(to, "%d %s stay higher than then, such as %s", r.n, r.what, r.first)
	}
}

// differences says what has to be set and taken back to get from one configuration to another.
func differences(from, to map[string]string) string { return settings(difference(from, to)) }

func difference[V comparable](from, to map[string]V) (set map[string]V, gone []string) {
	set = map[string]V{}
	for k, v := range to {
		if old, ok := from[k]; !ok || old != v {
			set[k] = v
		}
	}
	for k := range from {
		if _, ok := to[k]; !ok {
			gone = append(gone, k)
		}
	}
	slices.Sort(gone)
	return set, gone
}
