package deadline

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A set against a map.
func TestSetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set[string]
		start := time.Unix(1000, 0)
		model := map[string]time.Time{}
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, at := keys.Draw(t, "key"), start.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "at")))
				s.Put(k, at)
				model[k] = at
			},
			"drop": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				if _, ok := model[k]; s.Drop(k) != ok {
					t.Fatalf("%v was there: %v", k, ok)
				}
				delete(model, k)
			},
			"due": func(t *rapid.T) {
				now := start.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "now")))
				for _, k := range s.Due(now) {
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
				first, at, ok := s.First()
				if ok != (len(model) > 0) || !model[first].Equal(at) || s.Len() != len(model) {
					t.Fatalf("first %v of %d, %v at %v", ok, len(model), first, at)
				}
				for k, want := range model {
					if !s.Has(k) || want.Before(at) {
						t.Fatalf("%v at %v, the first is at %v", k, want, at)
					}
				}
			},
		})
	})
}
