package consumer

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func static(r HeartbeatRequest, instance string) HeartbeatRequest {
	r.InstanceID = &instance
	return r
}

func TestAStaticMemberComesBack(t *testing.T) {
	w := newWorld(t, "a:2")
	w.want(static(join("A", "a"), "i"), 1, "a:0,1")
	w.want(static(join("B", "a"), "j"), 2, "")
	w.want(static(beatAt("A", 1), "i"), 1, "a:0")
	resp := w.want(static(beatAt("A", -2), "i"), -2, "-")
	if resp.Left || resp.SessionTimeout != 45*time.Second || resp.RebalanceTimeout != 0 {
		t.Fatalf("answer %+v: its session goes on, and what it had to give up is free", resp)
	}
	w.want(static(beatAt("B", 2), "j"), 2, "a:1")
	epoch := w.g.Consumer.Epoch
	back := w.want(static(join("A2", "a"), "i"), 2, "a:0")
	if back.Replaced != "A" || w.g.Consumer.Epoch != epoch {
		t.Fatalf("answer %+v, epoch %d, want no new one", back, w.g.Consumer.Epoch)
	}
	if len(w.g.Consumer.Members) != 2 || w.g.Consumer.Members["A"] != nil || w.g.Consumer.Target["A"] != nil {
		t.Fatalf("members %v, target %v", w.g.Consumer.Members, w.g.Consumer.Target)
	}
	w.want(static(beatAt("A2", 2), "i"), 2, "-")
	w.want(static(beatAt("B", 2), "j"), 2, "-")
}

func TestAStaticMemberComesBackWithAnotherSubscription(t *testing.T) {
	w := newWorld(t, "a:1", "b:1")
	w.want(static(join("A", "a"), "i"), 1, "a:0")
	w.want(static(beatAt("A", -2), "i"), -2, "-")
	w.want(static(join("A2", "b"), "i"), 2, "b:0")
}

func TestAStaticMemberThatIsAwayKeepsItsPartitions(t *testing.T) {
	w := newWorld(t, "a:2")
	w.want(static(join("A", "a"), "i"), 1, "a:0,1")
	w.want(static(beatAt("A", -2), "i"), -2, "-")
	w.want(join("B", "a"), 2, "")
	w.want(beatAt("B", 2), 2, "-")
	_, err := w.beat(static(beatAt("A", 1), "i"))
	wantCode(t, err, kerr.FencedMemberEpoch)
	w.fence("A")
	w.want(beatAt("B", 2), 3, "a:0,1")
}

func TestInstanceIDs(t *testing.T) {
	for name, c := range map[string]struct {
		r    HeartbeatRequest
		want *kerr.Error
	}{
		"taken":                     {static(join("X", "a"), "i"), kerr.UnreleasedInstanceID},
		"its own":                   {static(join("A", "a"), "i"), nil},
		"of another":                {static(beatAt("X", 1), "i"), kerr.FencedInstanceID},
		"of another, to leave":      {static(beatAt("X", -1), "i"), kerr.FencedInstanceID},
		"of another, to be away":    {static(beatAt("X", -2), "i"), kerr.FencedInstanceID},
		"unknown":                   {static(beatAt("A", 1), "k"), kerr.UnknownMemberID},
		"unknown, to leave":         {static(beatAt("A", -1), "k"), kerr.UnknownMemberID},
		"not said":                  {beatAt("A", 1), nil},
		"not said, to leave":        {beatAt("A", -1), nil},
		"new":                       {static(join("X", "a"), "k"), nil},
		"to leave":                  {static(beatAt("A", -1), "i"), nil},
		"an epoch that is too high": {static(beatAt("A", 2), "i"), kerr.FencedMemberEpoch},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a:2")
			w.must(static(join("A", "a"), "i"))
			_, err := w.beat(c.r)
			wantCode(t, err, c.want)
		})
	}
}
