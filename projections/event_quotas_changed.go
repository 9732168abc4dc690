package projections

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// QuotasChanged says which quotas of an entity were set, by Kafka's names, and which are none
// any more.
type QuotasChanged struct {
	Entity  QuotaEntity `msgpack:"entity" json:"entity"`
	Set     QuotaValues `msgpack:"set,omitempty" json:"set,omitempty"`
	Deleted []string    `msgpack:"deleted,omitempty" json:"deleted,omitempty"`
}

func init() { register(func() Fact { return new(QuotasChanged) }) }

// EventName implements Fact.
func (*QuotasChanged) EventName() string { return "QuotasChanged" }

func (e *QuotasChanged) String() string {
	return fmt.Sprintf("quotas of %s changed%s", e.Entity, quotaSettings(e.Set, e.Deleted))
}

func (e *QuotasChanged) apply(d *draft) {
	if e.Entity == (QuotaEntity{}) {
		return
	}
	now := d.quotas.Of(e.Entity)
	next := maps.Clone(now)
	if next == nil {
		next = QuotaValues{}
	}
	maps.Copy(next, e.Set)
	for _, k := range e.Deleted {
		delete(next, k)
	}
	maps.DeleteFunc(next, func(_ string, v float64) bool { return math.IsNaN(v) })
	if !maps.Equal(next, now) {
		d.setQuotas(e.Entity, next)
	}
}

// quotaSettings says what was set and deleted, in order.
func quotaSettings(set QuotaValues, deleted []string) string {
	s := ""
	for _, k := range slices.Sorted(maps.Keys(set)) {
		s += fmt.Sprintf(", %s=%s", k, QuotaValue(set[k]))
	}
	for _, k := range deleted {
		s += fmt.Sprintf(", %s none any more", k)
	}
	return s
}

// QuotaValue writes a quota's number for people: 1048576, not 1.048576e+06.
func QuotaValue(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func quoted(s string) string { return fmt.Sprintf("%.200q", s) }
