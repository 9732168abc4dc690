package groupshard

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Timers against a map.
func TestTimersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ts timers
		start := time.Unix(1000, 0)
		model := map[timerKey]time.Time{}
		keys := rapid.Custom(func(t *rapid.T) timerKey {
			return timerKey{timerKind(rapid.IntRange(0, 2).Draw(t, "kind")), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"), ""}
		})
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, at := keys.Draw(t, "key"), start.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "at")))
				ts.set(k, at)
				model[k] = at
			},
			"drop": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				ts.drop(k)
				delete(model, k)
			},
			"due": func(t *rapid.T) {
				now := start.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "now")))
				for _, k := range ts.due(now) {
					if at, ok := model[k]; !ok || at.After(now) {
						t.Fatalf("%v is due at %v, is to be %v, %v", k, now, at, ok)
					}
					delete(model, k)
				}
				for k, at := range model {
					if !at.After(now) {
						t.Fatalf("%v is not due", k)
					}
				}
			},
			"": func(t *rapid.T) {
				at, ok := ts.next()
				if ok != (len(model) > 0) {
					t.Fatalf("next %v of %d", ok, len(model))
				}
				for k, want := range model {
					if !ts.has(k) || want.Before(at) {
						t.Fatalf("%v at %v, next is %v", k, want, at)
					}
				}
			},
		})
	})
}
