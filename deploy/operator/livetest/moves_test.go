package livetest

import (
	"testing"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
)

// A user whose resource moves is never without its rights, and gets in by the password of the new
// one, which need not adopt it; the Secret of the old one goes with it.
func testUserMoves(t *testing.T, w *world) {
	spec := v1alpha1.KafkaUserSpec{UserName: "Mover", Authentication: v1alpha1.Authentication{Type: v1alpha1.ScramSHA512},
		ACLs: []v1alpha1.ACL{allow(v1alpha1.Topic, "moved", "", "Read")}}
	rights := []string{"allow read topic literal:moved from *"}
	from, to := newUser("moves-from", spec), newUser("moves-to", spec)
	must(t, w.c.Create(t.Context(), from))
	w.awaitUser(t, from.Name, "Mover", has{rights: rights, iterations: 4096, secret: from.Name, reason: "InSync"})
	old := string(w.secret(t, from.Name)["password"])
	must(t, w.c.Create(t.Context(), to))
	w.awaitUser(t, to.Name, "Mover", has{rights: rights, iterations: 4096, reason: "NameTaken", message: "shop/moves-from"})
	if w.secret(t, to.Name) != nil {
		t.Error("who waits has a Secret")
	}
	w.remove(t, from)
	w.awaitUser(t, to.Name, "Mover", has{rights: rights, iterations: 4096, secret: to.Name, reason: "InSync"})
	w.awaitUser(t, from.Name, "Mover", has{rights: rights, iterations: 4096})
	w.awaitEvent(t, from.Name, "HandedOver")
	if w.secret(t, from.Name) != nil {
		t.Error("the old Secret is still there")
	}
	w.awaitOut(t, "Mover", old)
	w.awaitIn(t, "Mover", string(w.secret(t, to.Name)["password"]))
	w.secrets = append(w.secrets, old, string(w.secret(t, to.Name)["password"]))
	w.remove(t, to)
	w.awaitUser(t, to.Name, "Mover", has{})
}
