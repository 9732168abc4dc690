package projections

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
)

func TestQuotasInTheView(t *testing.T) {
	change := func(c *Cluster, e QuotaEntity, set QuotaValues, deleted ...string) *Cluster {
		return fold(t, c, []metalog.Event{mustEvent(t, &QuotasChanged{Entity: e, Set: set, Deleted: deleted})})
	}
	alice, all := QuotaEntity{User: QuotaName{Name: "alice"}}, QuotaEntity{User: QuotaName{Default: true}}
	none := NewCluster()
	if none.Quotas() != nil || none.Quotas().Of(alice) != nil || none.Quotas().Entities() != nil {
		t.Errorf("quotas of nobody: %v", none.Quotas())
	}
	one := change(none, alice, QuotaValues{"x": 1, "y": 2})
	two := change(change(one, all, QuotaValues{"x": 3}), alice, QuotaValues{"x": 4}, "y")
	if got := two.Quotas().Entities(); !slices.Equal(got, []QuotaEntity{all, alice}) {
		t.Errorf("they are for %v", got)
	}
	if q := two.Quotas().Of(alice); len(q) != 1 || q["x"] != 4 {
		t.Errorf("alice has %v", q)
	}
	if q := one.Quotas().Of(alice); len(q) != 2 || q["x"] != 1 {
		t.Errorf("the view before has changed: %v", q)
	}
	if one.Equal(two) || none.Equal(one) || one.Equal(none) {
		t.Error("views with other quotas are equal")
	}
	if back := change(one, alice, nil, "x", "y"); back.Quotas() != nil || !back.Equal(none) {
		t.Errorf("without the last quota: %v", back.Quotas())
	}
	// What has nothing to do with quotas leaves them known by their address.
	if c := fold(t, one, []metalog.Event{mustEvent(t, &ControllerChanged{Node: 3})}); c.Quotas() != one.Quotas() {
		t.Error("another view has other quotas")
	}
	r := Restore(one, two, func(TopicID) int32 { return 0 })
	if got := strings.Join(r.Restored, "\n"); !r.View.Quotas().equal(one.Quotas()) ||
		got != "quotas of default user, x none any more\nquotas of user \"alice\", x=1, y=2" {
		t.Errorf("restored %v, says %q", r.View.Quotas(), got)
	}
}

func TestValidateQuota(t *testing.T) {
	name := func(s string) QuotaName { return QuotaName{Name: s} }
	user, ip, all := QuotaEntity{User: name("a")}, QuotaEntity{IP: name("::1")}, QuotaName{Default: true}
	for _, e := range []QuotaEntity{user, ip, {ClientID: name("a")}, {User: all, ClientID: all}, {IP: all}, {IP: name("10.0.0.1")}} {
		if err := ValidateQuotaEntity(e); err != nil {
			t.Errorf("%s: %v", e, err)
		}
	}
	for _, e := range []QuotaEntity{{}, {IP: name("localhost")}, {IP: name("10.0.0.0/8")}, {IP: all, User: all}, {IP: name("::1"), ClientID: name("a")}} {
		if err := ValidateQuotaEntity(e); !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("%s: %v", e, err)
		}
	}
	for _, q := range []struct {
		e     QuotaEntity
		key   string
		value float64
		good  bool
	}{
		{user, "producer_byte_rate", 1, true}, {user, "consumer_byte_rate", 1e15, true}, {user, "request_percentage", 0.5, true},
		{user, "controller_mutation_rate", 0.1, true}, {ip, "connection_creation_rate", 20, true}, {user, "producer_byte_rate", 3.0000001, true},
		{user, "producer_byte_rate", 1.5, false}, {user, "producer_byte_rate", 0, false}, {user, "request_percentage", -1, false},
		{user, "request_percentage", math.NaN(), false}, {user, "request_percentage", math.Inf(1), false}, {user, "consumer_byte_rate", 1e19, false},
		{user, "connection_creation_rate", 1, false}, {ip, "producer_byte_rate", 1, false}, {ip, "connection_creation_rate", 1 << 31, false},
		{user, "", 1, false}, {user, "SCRAM-SHA-256", 1, false},
	} {
		if err := ValidateQuota(q.e, q.key, q.value); (err == nil) != q.good || err != nil && !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("%s of %s, %v: %v", q.key, q.e, q.value, err)
		}
	}
}

func TestQuotasHaveBounds(t *testing.T) {
	for what, tc := range map[string]struct {
		have, added, long int // entities; the length of one more that is added
		fit               bool
	}{
		"as many as may be": {0, MaxQuotaEntities, 0, true}, "one too many": {MaxQuotaEntities, 1, 0, false}, "too many at once": {1, MaxQuotaEntities, 0, false},
		"as long as may be": {0, 0, MaxQuotaBytes, true}, "too long": {0, 0, MaxQuotaBytes + 1, false}, "too long together": {1, 0, MaxQuotaBytes, false},
		"none": {MaxQuotaEntities, 0, 0, true},
	} {
		q, added := &Quotas{map[QuotaEntity]QuotaValues{}}, []*QuotasChanged{}
		for i := range tc.have {
			q.by[QuotaEntity{User: QuotaName{Name: strconv.Itoa(i)}}] = QuotaValues{"x": 1}
		}
		for i := range tc.added {
			added = append(added, &QuotasChanged{Entity: QuotaEntity{ClientID: QuotaName{Name: strconv.Itoa(i)}}, Set: QuotaValues{"x": 1}})
		}
		if tc.long > 0 {
			added = append(added, &QuotasChanged{Entity: QuotaEntity{User: QuotaName{Default: true}, ClientID: QuotaName{Name: strings.Repeat("x", tc.long)}}, Set: QuotaValues{"x": 1}})
		}
		// What is there may change and go whatever there is, and what is not there may go.
		for e := range q.by {
			added = append(added, &QuotasChanged{Entity: e, Set: QuotaValues{"x": 2}})
			break
		}
		added = append(added, &QuotasChanged{Entity: QuotaEntity{User: QuotaName{Name: strings.Repeat("y", MaxQuotaBytes)}}, Deleted: []string{"x"}})
		if err := q.Fits(added); (err == nil) != tc.fit || !tc.fit && !errors.Is(err, kerr.PolicyViolation) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var none *Quotas
	if err := none.Fits([]*QuotasChanged{{Entity: QuotaEntity{User: QuotaName{Name: "a"}}, Set: QuotaValues{"x": 1}}}); err != nil {
		t.Error(err)
	}
}
