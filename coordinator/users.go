package coordinator

import (
	"cmp"
	"context"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// AlterUsers has changes of users' credentials committed and shown. decide makes them of the
// view at the point that orders all changes; it may run more than once, also on what it has
// made itself, and must then come to nothing more. Errors are as those of AlterQuotas.
func (b *Broker) AlterUsers(ctx context.Context, decide func(*projections.Cluster) ([]projections.Fact, error)) error {
	publish := func(c *projections.Cluster) ([]metalog.Event, error) {
		fs, err := decide(c)
		if err != nil || len(fs) == 0 {
			return nil, err
		}
		if err := cmp.Or(notTooMany("credentials", len(fs)), c.ScramFits(fs)); err != nil {
			return nil, err
		}
		return projections.NewEvents(fs...)
	}
	return b.await(ctx, "alter credentials", func() error {
		_, err := b.publish(b.run, "credentials of users altered", publish)
		return err
	})
}
