package server

// ListTransactions, key 66, versions 0 to 2 (KIP-664, KIP-994, KIP-1152).
//
// The transactions of the shards that this broker owns, COORDINATOR_LOAD_IN_PROGRESS while one
// is being opened. Names of states that there are not come back. From version 1 on only those
// may be asked for that have been open for longer, from version 2 on those whose ID a regular
// expression matches whole, which is held to the bounds of all that clients send. What who asks
// may not see is not matched with it.

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/internal/pattern"
	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/server/acl"
)

var listTransactionsAPI = api{key: kmsg.ListTransactions, min: 0, max: 2, wide: true, access: checks(right{acl.Describe, acl.TransactionalID}), start: (*Server).listTransactions}

func (s *Server) listTransactions(_ context.Context, r *request) (reply, error) {
	return later(func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrListTransactionsResponse()
		resp.ErrorCode = s.groupFailure(kmsg.ListTransactions, s.listTxns(ctx, r, resp))
		if resp.ErrorCode != 0 {
			resp.TransactionStates = nil
		}
		return resp, nil
	})
}

// passing are states that Kafka knows and that no transaction is seen in.
var passing = map[string]bool{"Dead": true, "PrepareEpochFence": true}

func (s *Server) listTxns(ctx context.Context, r *request, resp *kmsg.ListTransactionsResponse) error {
	ctx, cancel := context.WithTimeout(ctx, volumeWait)
	defer cancel()
	req := r.msg.(*kmsg.ListTransactionsRequest)
	f := txnshard.Filter{Producers: req.ProducerIDFilters, OpenFor: -1}
	if req.DurationFilterMillis >= 0 {
		f.OpenFor = time.Duration(min(req.DurationFilterMillis, int64(maxListed/time.Millisecond))) * time.Millisecond
	}
	none := false // only states that no transaction is in
	for _, name := range req.StateFilters {
		state, ok := txns.ParseState(name)
		switch {
		case ok:
			f.States = append(f.States, state)
		case passing[name]:
			none = true
		default:
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	if p := or(req.TransactionalIDPattern, ""); p != "" {
		if err := r.checkPattern(p); err != nil {
			return fmt.Errorf("%w: %w", kerr.InvalidRegularExpression, err)
		}
		f.Match = matchVisible(ctx, r, p)
	}
	shards, all := s.backend.TxnShards()
	if !all {
		return kerr.CoordinatorLoadInProgress
	}
	if len(f.States) == 0 && (none || len(resp.UnknownStateFilters) > 0) {
		return nil
	}
	for _, shard := range shards {
		ts, err := shard.List(ctx, f)
		if err != nil {
			return err
		}
		for _, t := range ts {
			if !r.sees(acl.Describe, acl.TransactionalID, t.ID) {
				continue
			}
			if !r.room(elementBytes + len(t.ID)) {
				return nil
			}
			o := kmsg.NewListTransactionsResponseTransactionState()
			o.TransactionalID, o.ProducerID, o.TransactionState = t.ID, t.ProducerID, t.State.String()
			resp.TransactionStates = append(resp.TransactionStates, o)
		}
	}
	return ctx.Err() // some may not have been matched
}

// checkPattern judges a pattern, whose time counts.
func (r *request) checkPattern(expr string) error {
	defer r.busy(time.Now())
	return pattern.Check(expr)
}

// matchVisible matches what who asks may see. It is compiled for the first of that: who may see
// nothing has no work done for it.
func matchVisible(ctx context.Context, r *request, expr string) func(id string) bool {
	var re *regexp.Regexp
	return func(id string) bool {
		defer r.busy(time.Now())
		if ctx.Err() != nil || !r.subject.Allows(acl.Describe, acl.TransactionalID, id) {
			return false
		}
		if re == nil {
			re, _ = pattern.Compile(expr) // it was checked
		}
		return re.MatchString(id)
	}
}

// maxListed is longer than any transaction is open.
const maxListed = 10 * 365 * 24 * time.Hour
