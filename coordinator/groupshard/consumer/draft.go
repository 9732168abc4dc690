package consumer

import (
	"iter"
	"slices"
	"time"

	"kaas.dev/kaas/projections/groups"
)

// draft is a membership while one call changes it.
type draft struct {
	id     string // of the group
	now    time.Time
	topics Topics
	cfg    Config
	was    *groups.Consumer // never nil

	epoch, targetEpoch int32
	assignor           string
	hash               uint64

	member     *groups.ConsumerMember // what has become of one member, nil for none
	gone       []string               // the members that are gone
	moved      groups.Targets         // targets that have changed
	upgraded   bool                   // the membership was a classic one
	downgraded *groups.Classic        // and is to be this one
	retold     bool                   // there is a new target, be it the same
}

func newDraft(g *groups.Group, id string, t Topics, cfg Config, now time.Time) *draft {
	d := &draft{id: id, now: now, topics: t, cfg: cfg}
	if g != nil && g.Consumer != nil {
		d.begin(g.Consumer)
	} else {
		d.begin(&groups.Consumer{})
	}
	return d
}

// begin makes a membership the one that is to be changed.
func (d *draft) begin(was *groups.Consumer) {
	d.was = was
	d.epoch, d.targetEpoch = was.Epoch, was.TargetEpoch
	d.assignor, d.hash = was.Assignor, was.TopicsHash
}

// members yields the members as they are now, in no order.
func (d *draft) members() iter.Seq[*groups.ConsumerMember] {
	return func(yield func(*groups.ConsumerMember) bool) {
		if d.member != nil && !yield(d.member) {
			return
		}
		for id, m := range d.was.Members {
			if d.member != nil && id == d.member.ID || slices.Contains(d.gone, id) {
				continue
			}
			if !yield(m) {
				return
			}
		}
	}
}

// static returns the member with an instance ID, nil if there is none.
func (d *draft) static(instance string) *groups.ConsumerMember {
	for _, m := range d.was.Members {
		if m.InstanceID != nil && *m.InstanceID == instance {
			return m
		}
	}
	return nil
}

// raise gives the group a new epoch.
func (d *draft) raise() { d.epoch++ }

// rehash looks at the subscribed topics, and reports whether they are others than when
// the epoch was raised for them last.
func (d *draft) rehash(changed bool) bool {
	compute := func() uint64 { return hashTopics(d.topics, &d.cfg, d.members()) }
	if changed {
		d.hash = compute()
	} else {
		d.hash = d.cfg.Memory.sum(d.topics, d.id, d.was, compute)
	}
	return d.hash != d.was.TopicsHash
}

// target is what a member is to have.
func (d *draft) target(id string) groups.Assignment {
	if a, ok := d.moved[id]; ok {
		return a
	}
	return d.was.Target[id]
}

// taken returns which of some partitions other members than the draft's have not given up.
func (d *draft) taken(ps groups.Assignment) groups.Assignment {
	out := groups.Assignment{}
	if len(ps) == 0 {
		return out
	}
	for m := range d.members() {
		if m != d.member {
			collect(out, ps, m.Assigned)
			collect(out, ps, m.Revoking)
		}
	}
	for _, list := range out {
		slices.Sort(list)
	}
	return out
}

// collect adds to out what is in both a and b.
func collect(out, a, b groups.Assignment) {
	for id, ps := range b {
		if shared := both(ps, a[id]); len(shared) > 0 {
			out[id] = append(out[id], shared...)
		}
	}
}

// facts says what the draft changes.
func (d *draft) facts() []groups.Fact {
	var out []groups.Fact
	now := d.now.UnixMilli()
	if d.downgraded != nil {
		return []groups.Fact{&groups.ClassicGroupChanged{Group: d.id, Time: now, State: *d.downgraded}}
	}
	if d.epoch != d.was.Epoch || d.hash != d.was.TopicsHash || d.upgraded {
		out = append(out, &groups.ConsumerGroupChanged{Group: d.id, Time: now, Epoch: d.epoch, TopicsHash: d.hash})
	}
	if d.upgraded {
		return append(out, d.upgradeFacts()...)
	}
	if d.member != nil && !equal(d.member, d.was.Members[d.member.ID]) {
		out = append(out, &groups.ConsumerMemberChanged{Group: d.id, Member: *d.member})
	}
	for _, id := range d.gone {
		out = append(out, &groups.ConsumerMemberLeft{Group: d.id, Time: now, Member: id})
	}
	if d.retold || len(d.moved) > 0 {
		out = append(out, &groups.ConsumerTargetChanged{
			Group: d.id, Epoch: d.targetEpoch, Assignor: d.assignor, Changed: d.moved,
		})
	}
	return out
}
