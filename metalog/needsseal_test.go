package metalog_test

import (
	"context"
	"testing"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

func TestNeedsSeal(t *testing.T) {
	v := newVolume(t, nil)
	a, b := session(t, v), session(t, v)
	check := func(what string, epoch substrate.Epoch, by *substrate.Session, needs bool, wantNewest substrate.Epoch) {
		t.Helper()
		want := ""
		if needs {
			want = a.ID()
		}
		owner, newest, err := metalog.NeedsSeal(v, stream, epoch, by.ID())
		if err != nil || owner != want || newest != wantNewest {
			t.Errorf("%s: %q, newest %d, %v; want %q, %d", what, owner, newest, err, want, wantNewest)
		}
	}
	check("just born", 1, a, false, 0)
	w := claim(t, a, 1, metalog.Options{})
	check("claimed, nothing published", 2, b, true, 1)
	publish(t, w, "x")
	check("led by another", 2, b, true, 1)
	check("led by oneself", 2, a, false, 1)
	check("an epoch further on", 5, b, true, 1)
	if err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	check("closed", 2, b, false, 1)
	claim(t, b, 3, metalog.Options{}) // burns 2
	check("below one that is led", 3, a, false, 2)
	if err := v.Seal(context.Background(), b.ID()); err != nil {
		t.Fatal(err)
	}
	check("sealed", 4, a, false, 3)
}
