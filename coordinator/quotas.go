package coordinator

import (
	"cmp"
	"context"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// AlterQuotas makes changes of quotas in one step, and returns when they are committed and
// shown. What is to be set is the caller's to judge. Each entity stands in the changes once.
// Errors are as for AlterTopicConfigs, or wrap kerr.PolicyViolation (too many in all) or
// kerr.InvalidRequest (too many at once).
func (b *Broker) AlterQuotas(ctx context.Context, changes []projections.QuotasChanged) error {
	publish := func(c *projections.Cluster) ([]metalog.Event, error) {
		var facts []projections.Fact
		var news []*projections.QuotasChanged
		for i := range changes {
			if f := quotaNews(c, &changes[i]); f != nil {
				facts, news = append(facts, f), append(news, f)
			}
		}
		if err := cmp.Or(notTooMany("quotas", len(news)), c.Quotas().Fits(news)); err != nil {
			return nil, err
		}
		return projections.NewEvents(facts...)
	}
	return b.await(ctx, "alter quotas", func() error {
		_, err := b.publish(b.run, "quotas altered", publish)
		if err == nil {
			b.log.Info("quotas altered", "entities", len(changes))
		}
		return err
	})
}

// quotaNews is what of a change the view does not show yet; nil if nothing.
func quotaNews(c *projections.Cluster, want *projections.QuotasChanged) *projections.QuotasChanged {
	f := &projections.QuotasChanged{Entity: want.Entity, Set: projections.QuotaValues{}}
	now := c.Quotas().Of(want.Entity)
	for k, v := range want.Set {
		if old, ok := now[k]; !ok || old != v {
			f.Set[k] = v
		}
	}
	for _, k := range want.Deleted {
		if _, ok := now[k]; ok {
			f.Deleted = append(f.Deleted, k)
		}
	}
	if len(f.Set)+len(f.Deleted) == 0 {
		return nil
	}
	return f
}
