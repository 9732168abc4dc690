package projections

import (
	"runtime"
	"strconv"
	"testing"

	"kaas.dev/kaas/metalog"
)

// A batch costs what its events do: what is theirs together is copied once for all of them.
func TestBatchesCostWhatTheirEventsDo(t *testing.T) {
	const few, many = 3000, 30_000
	acl := func(i int) []ACL {
		a := anACL(ACLRead)
		a.Name = strconv.Itoa(i)
		return []ACL{a}
	}
	entity := func(i int) QuotaEntity { return QuotaEntity{User: QuotaName{Name: strconv.Itoa(i)}} }
	for what, facts := range map[string][]func(i int) Fact{ // one after the other, of each i
		"quotas": {
			func(i int) Fact { return &QuotasChanged{Entity: entity(i), Set: QuotaValues{"x": 1}} },
			func(i int) Fact { return &QuotasChanged{Entity: entity(i), Deleted: []string{"x"}} },
		},
		"credentials": {
			func(i int) Fact { return credentialOf(strconv.Itoa(i), "x") },
			func(i int) Fact { return &ScramCredentialRemoved{User: strconv.Itoa(i), Mechanism: ScramSHA256} },
		},
		"ACLs": {
			func(i int) Fact { return &ACLsCreated{ACLs: acl(i)} },
			func(i int) Fact { return &ACLsDeleted{ACLs: acl(i)} },
		},
		"groups' settings": {
			func(i int) Fact {
				return &ConfigChanged{Resource: ResourceGroup, Name: strconv.Itoa(i), Set: map[string]string{"k": "v"}}
			},
			func(i int) Fact {
				return &ConfigChanged{Resource: ResourceGroup, Name: strconv.Itoa(i), Deleted: []string{"k"}}
			},
		},
	} {
		cost := func(n int) (made, gone uint64) {
			c, costs := NewCluster(), [2]uint64{}
			for step, f := range facts {
				var evs []metalog.Event
				for i := range n {
					evs = append(evs, mustEvent(t, f(i)))
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				c = fold(t, c, evs)
				runtime.ReadMemStats(&after)
				costs[step] = (after.TotalAlloc - before.TotalAlloc) / uint64(n)
			}
			none := NewCluster()
			none.scramSecret = c.scramSecret // which is to stay
			if !c.Equal(none) {
				t.Errorf("%s: %d made and gone leave something", what, n)
			}
			return costs[0], costs[1]
		}
		made, gone := cost(few)
		if m, g := cost(many); m > 2*made || g > 2*gone {
			t.Errorf("%s: each of %d takes %d and %d bytes to be made and go, each of %d %d and %d", what, few, made, gone, many, m, g)
		}
	}
}
