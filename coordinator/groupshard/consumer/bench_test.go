package consumer

import (
	"fmt"
	"sync"
	"testing"
)

// settled is a group whose members all have their targets.
func settled(b *testing.B, members int, topics ...string) *world {
	w := newWorld(b, topics...)
	names := make([]string, 0, len(topics))
	for _, t := range w.topics.Topics() {
		names = append(names, t.Name)
	}
	for i := range members {
		w.must(join(fmt.Sprint("m", i), names...))
	}
	for range 4 {
		for id, m := range w.g.Consumer.Members {
			r := beatAt(id, m.Epoch)
			r.Owned = named(setOf(m.Assigned))
			w.must(r)
		}
	}
	if s := State(w.g.Consumer); s != Stable {
		b.Fatal(s)
	}
	return w
}

func BenchmarkHeartbeat(b *testing.B) {
	for _, c := range []struct{ members, topics, partitions int }{{8, 1, 64}, {1000, 1, 1000}, {1000, 100, 10}} {
		var topics []string
		for i := range c.topics {
			topics = append(topics, fmt.Sprintf("t%d:%d", i, c.partitions))
		}
		name := fmt.Sprintf("%dx%dx%d", c.members, c.topics, c.partitions)
		group := sync.OnceValue(func() world { return *settled(b, c.members, topics...) })
		for kind, r := range map[string]HeartbeatRequest{
			"quiet": beatAt("m1", int32(c.members)), "join": join("new", "t0"), "leave": beatAt("m1", -1),
		} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				w := group()
				r.GroupID = "g"
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := Heartbeat(w.g, w.topics, w.cfg, w.now, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run("waiting/"+name, func(b *testing.B) { // for partitions that others are to give up
			w := group()
			w.must(join("new", "t0"))
			r := beatAt("new", w.g.Consumer.TargetEpoch)
			r.GroupID = "g"
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Heartbeat(w.g, w.topics, w.cfg, w.now, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
